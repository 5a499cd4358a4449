/* FarmHash's fingerprint64, as fingerprint.py has it in Python. Words are read byte by byte, so that every order of bytes
 * and every alignment gives the same number. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

static const uint64_t K0 = 0xc3a5c85c97cb3127ULL, K1 = 0xb492b66fbe98f273ULL, K2 = 0x9ae16a3b2f90404fULL;

typedef struct {
    uint64_t first, second;
} Pair;

static uint64_t word32(const unsigned char *at)
{
    return (uint64_t)at[0] | (uint64_t)at[1] << 8 | (uint64_t)at[2] << 16 | (uint64_t)at[3] << 24;
}

static uint64_t word(const unsigned char *at) { return word32(at) | word32(at + 4) << 32; }

static uint64_t rotated(uint64_t value, int by) { return value >> by | value << (64 - by); }

static uint64_t shifted(uint64_t value) { return value ^ value >> 47; }

static uint64_t folded(uint64_t u, uint64_t v, uint64_t multiplier)
{
    uint64_t a = shifted((u ^ v) * multiplier);
    return shifted((v ^ a) * multiplier) * multiplier;
}

static Pair weak(const unsigned char *at, uint64_t a, uint64_t b)
{
    uint64_t sum;
    Pair mixed;

    a += word(at);
    b = rotated(b + a + word(at + 24), 21);
    sum = a + word(at + 8) + word(at + 16);
    mixed.first = sum + word(at + 24);
    mixed.second = b + rotated(sum, 44) + a;
    return mixed;
}

static uint64_t of_16(const unsigned char *text, size_t length)
{
    uint64_t multiplier = K2 + length * 2;

    if (length >= 8) {
        uint64_t first = word(text) + K2, last = word(text + length - 8);
        return folded(rotated(last, 37) * multiplier + first, (rotated(first, 25) + last) * multiplier, multiplier);
    }
    if (length >= 4)
        return folded(length + (word32(text) << 3), word32(text + length - 4), multiplier);
    if (length > 0) {
        uint64_t y = text[0] + ((uint64_t)text[length >> 1] << 8), z = length + ((uint64_t)text[length - 1] << 2);
        return shifted(y * K2 ^ z * K0) * K2;
    }
    return K2;
}

static uint64_t of_32(const unsigned char *text, size_t length)
{
    uint64_t multiplier = K2 + length * 2, a = word(text) * K1, b = word(text + 8);
    uint64_t c = word(text + length - 8) * multiplier, d = word(text + length - 16) * K2;
    return folded(rotated(a + b, 43) + rotated(c, 30) + d, a + rotated(b + K2, 18) + c, multiplier);
}

static uint64_t of_64(const unsigned char *text, size_t length)
{
    uint64_t multiplier = K2 + length * 2, a = word(text) * K2, b = word(text + 8);
    uint64_t c = word(text + length - 8) * multiplier, d = word(text + length - 16) * K2;
    uint64_t y = rotated(a + b, 43) + rotated(c, 30) + d, z = folded(y, a + rotated(b + K2, 18) + c, multiplier);
    uint64_t e = word(text + 16) * multiplier, f = word(text + 24);
    uint64_t g = (y + word(text + length - 32)) * multiplier, h = (z + word(text + length - 24)) * multiplier;
    return folded(rotated(e + f, 43) + rotated(g, 30) + h, e + rotated(f + a, 18) + g, multiplier);
}

static uint64_t of_many(const unsigned char *text, size_t length)
{
    uint64_t x = 81 * K2 + word(text), y = 81 * K1 + 113, z = shifted(y * K2 + 113) * K2, multiplier, swapped;
    Pair v = {0, 0}, w = {0, 0};
    size_t rest = (length - 1) & 63;
    const unsigned char *at = text, *end = text + (length - 1 - rest);

    for (; at != end; at += 64) {
        x = rotated(x + y + v.first + word(at + 8), 37) * K1 ^ w.second;
        y = rotated(y + v.second + word(at + 48), 42) * K1 + v.first + word(at + 40);
        z = rotated(z + w.first, 33) * K1;
        v = weak(at, v.second * K1, x + w.first);
        w = weak(at + 32, z + w.second, y + word(at + 16));
        swapped = z, z = x, x = swapped;
    }
    multiplier = K1 + ((z & 0xff) << 1);
    at = text + length - 64;
    w.first += rest;
    v.first += w.first;
    w.first += v.first;
    x = rotated(x + y + v.first + word(at + 8), 37) * multiplier ^ w.second * 9;
    y = rotated(y + v.second + word(at + 48), 42) * multiplier + v.first * 9 + word(at + 40);
    z = rotated(z + w.first, 33) * multiplier;
    v = weak(at, v.second * multiplier, x + w.first);
    w = weak(at + 32, z + w.second, y + word(at + 16));
    swapped = z, z = x, x = swapped;
    return folded(folded(v.first, w.first, multiplier) + shifted(y) * K0 + z,
                  folded(v.second, w.second, multiplier) + x, multiplier);
}

PyDoc_STRVAR(fingerprint64_doc, "fingerprint64(text: bytes)\n--\n\nFarmHash's fingerprint of it, 64 bits, unsigned.");

static PyObject *fingerprint64(PyObject *module, PyObject *text)
{
    char *begin;
    Py_ssize_t size;
    uint64_t found;

    (void)module;
    if (PyBytes_AsStringAndSize(text, &begin, &size) < 0)
        return NULL;
    if (size <= 16)
        found = of_16((const unsigned char *)begin, (size_t)size);
    else if (size <= 32)
        found = of_32((const unsigned char *)begin, (size_t)size);
    else if (size <= 64)
        found = of_64((const unsigned char *)begin, (size_t)size);
    else
        found = of_many((const unsigned char *)begin, (size_t)size);
    return PyLong_FromUnsignedLongLong(found);
}

static PyMethodDef METHODS[] = {{"fingerprint64", fingerprint64, METH_O, fingerprint64_doc}, {NULL, NULL, 0, NULL}};

static struct PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT, .m_name = "_fingerprint", .m_doc = "FarmHash's fingerprint64.", .m_size = 0,
    .m_methods = METHODS,
};

PyMODINIT_FUNC PyInit__fingerprint(void) { return PyModuleDef_Init(&MODULE); }
