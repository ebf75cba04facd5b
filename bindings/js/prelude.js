(function (isLiveSignal, encode, decode) {
  'use strict';

  class DOMException extends Error {
    constructor(message, name) {
      super(message);
      Object.defineProperty(this, 'name', { value: name, configurable: true, writable: true });
    }
  }

  function structuredClone(value) {
    if (arguments.length === 0) throw new TypeError('structuredClone: missing parameter value');
    const seen = new Map();
    const clone = (x) => {
      if (typeof x === 'function' || typeof x === 'symbol') throw new DOMException('structuredClone: a ' + typeof x + ' cannot be cloned', 'DataCloneError');
      if (typeof x !== 'object' || x === null) return x;
      if (seen.has(x)) return seen.get(x);
      const keep = (c) => { seen.set(x, c); return c; };
      if (Array.isArray(x)) {
        const c = keep(new Array(x.length));
        for (const k of Object.keys(x)) c[k] = clone(x[k]);
        return c;
      }
      if (x instanceof Date) return keep(new Date(x.getTime()));
      if (x instanceof RegExp) return keep(new RegExp(x.source, x.flags));
      if (x instanceof Map) {
        const c = keep(new Map());
        for (const [k, v] of x) c.set(clone(k), clone(v));
        return c;
      }
      if (x instanceof Set) {
        const c = keep(new Set());
        for (const v of x) c.add(clone(v));
        return c;
      }
      if (x instanceof ArrayBuffer) return keep(x.slice(0));
      if (ArrayBuffer.isView(x)) return keep(new x.constructor(x));
      if (x instanceof Error) {
        const c = keep(new Error(x.message));
        Object.defineProperty(c, 'name', { value: x.name, configurable: true, writable: true });
        return c;
      }
      if (typeof x.toJSON === 'function' || x instanceof Promise || x instanceof WeakMap || x instanceof WeakSet)
        throw new DOMException('structuredClone: this object cannot be cloned', 'DataCloneError');
      const c = keep({});
      for (const k of Object.keys(x)) c[k] = clone(x[k]);
      return c;
    };
    return clone(value);
  }

  const fire = Symbol('fire');

  class AbortSignal {
    #reason;
    #aborted = false;
    #listeners = [];
    onabort = null;
    get aborted() { return this.#aborted; }
    get reason() { return this.#reason; }
    throwIfAborted() { if (this.#aborted) throw this.#reason; }
    addEventListener(type, fn) {
      if (type === 'abort' && fn && !this.#listeners.includes(fn)) this.#listeners.push(fn);
    }
    removeEventListener(type, fn) { this.#listeners = this.#listeners.filter((f) => f !== fn); }
    [fire](reason) {
      if (this.#aborted) return;
      this.#aborted = true;
      this.#reason = reason === undefined ? new DOMException('This operation was aborted', 'AbortError') : reason;
      const event = { type: 'abort', target: this };
      for (const f of [this.onabort, ...this.#listeners]) {
        if (typeof f === 'function') f.call(this, event);
        else if (f && typeof f.handleEvent === 'function') f.handleEvent(event);
      }
    }
    static abort(reason) {
      const s = new AbortSignal();
      s[fire](reason);
      return s;
    }
    static timeout(ms) {
      const s = new AbortSignal();
      setTimeout(() => s[fire](new DOMException('The operation timed out', 'TimeoutError')), ms);
      return s;
    }
    static any(signals) {
      const s = new AbortSignal();
      for (const x of signals) {
        if (x.aborted) { s[fire](x.reason); break; }
        x.addEventListener('abort', () => s[fire](x.reason));
      }
      return s;
    }
    // A signal that an event gives is one as well.
    static [Symbol.hasInstance](x) {
      return isLiveSignal(x) || (typeof x === 'object' && x !== null && AbortSignal.prototype.isPrototypeOf(x));
    }
  }

  class AbortController {
    signal = new AbortSignal();
    abort(reason) { this.signal[fire](reason); }
  }

  class TextEncoder {
    get encoding() { return 'utf-8'; }
    encode(text = '') { return new Uint8Array(encode(String(text))); }
  }

  class TextDecoder {
    get encoding() { return 'utf-8'; }
    decode(bytes) {
      if (bytes === undefined) return '';
      if (bytes instanceof ArrayBuffer) return decode(bytes, 0, bytes.byteLength);
      if (ArrayBuffer.isView(bytes)) return decode(bytes.buffer, bytes.byteOffset, bytes.byteOffset + bytes.byteLength);
      throw new TypeError('TextDecoder.decode: got no bytes');
    }
  }

  return { structuredClone, AbortController, AbortSignal, TextEncoder, TextDecoder };
})
