// Pages that a browser opens from a disk may not start workers. There, the worker of the search runs in a hidden frame.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      this.waiting = []
      const frame = document.createElement("iframe")
      frame.hidden = true
      const begin = () => {
        document.body.appendChild(frame)
        const inner = frame.contentWindow
        inner.document.open()
        inner.document.write("<!doctype html><body></body>")
        inner.document.close()
        inner.postMessage = (data) => setTimeout(() => this.answer(data))
        inner.importScripts = (...urls) => Promise.all(urls.map((each) => this.load(inner, each)))
        this.load(inner, url).then(() => {
          this.inner = inner
          this.waiting.splice(0).forEach((data) => this.postMessage(data))
        })
      }
      document.body ? begin() : addEventListener("DOMContentLoaded", begin)
    }
    load(inner, url) {
      return new Promise((loaded, failed) => {
        const script = inner.document.createElement("script")
        script.src = new URL(url, location.href).href
        script.onload = loaded
        script.onerror = failed
        inner.document.body.appendChild(script)
      })
    }
    answer(data) {
      const event = new MessageEvent("message", {data})
      this.dispatchEvent(event)
      if (this.onmessage) this.onmessage(event)
    }
    postMessage(data) {
      if (!this.inner) this.waiting.push(data)
      else this.inner.dispatchEvent(new this.inner.MessageEvent("message", {data}))
    }
    terminate() {}
  }
}
