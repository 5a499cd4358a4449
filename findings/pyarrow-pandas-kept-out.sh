#!/bin/sh
# pyarrow 26.0.1 with numpy 2.4.6: where a process keeps pandas out by "sys.modules['pandas'] = None", which Python's
# documentation offers for that, the first list that pyarrow converts raises AttributeError: its compiled code imports
# None and asks it for a version. A finder in sys.meta_path that raises ModuleNotFoundError keeps pandas out, and works.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet pyarrow==26.0.1 numpy==2.4.6
"$folder/venv/bin/python" -m pip freeze | grep -iE "^(pyarrow|numpy)=="
cat > "$folder/none.py" <<'CODE'
import sys

sys.modules["pandas"] = None
import pyarrow as pa

try:
    print(pa.array([1]).to_pylist())
except AttributeError as error:
    print("AttributeError:", error)
CODE
cat > "$folder/finder.py" <<'CODE'
import sys


class Without:
    def find_spec(self, name, path=None, target=None):
        if name == "pandas":
            raise ModuleNotFoundError(name)


sys.meta_path.insert(0, Without())
import pyarrow as pa

print(pa.array([1]).to_pylist())
CODE
echo "None in sys.modules: $("$folder/venv/bin/python" "$folder/none.py")"
echo "a finder: $("$folder/venv/bin/python" "$folder/finder.py")"
"$folder/venv/bin/python" "$folder/none.py" | grep -q "^AttributeError: 'NoneType' object has no attribute '__version__'"
test "$("$folder/venv/bin/python" "$folder/finder.py")" = "[1]"
