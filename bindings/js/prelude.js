(function (isLiveSignal, encode, decode, parseURL) {
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
    let depth = 0;
    const clone = (x) => {
      if (typeof x !== 'object' || x === null) return one(x);
      if (++depth > 500) throw new RangeError('structuredClone: nested more than 500 deep');
      try { return one(x); } finally { depth--; }
    };
    const one = (x) => {
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
      if (x instanceof DataView) return keep(new DataView(clone(x.buffer), x.byteOffset, x.byteLength));
      if (ArrayBuffer.isView(x)) return keep(new x.constructor(x));
      if (x instanceof Error) {
        const c = keep(new Error(x.message, 'cause' in x ? { cause: clone(x.cause) } : undefined));
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
        try {
          if (typeof f === 'function') f.call(this, event);
          else if (f && typeof f.handleEvent === 'function') f.handleEvent(event);
        } catch (e) {
          Promise.reject(e); // is reported, and the others hear of the abort
        }
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
    constructor(label = 'utf-8') {
      if (!/^utf-?8$/i.test(label)) throw new RangeError('TextDecoder: only utf-8 is known');
    }
    get encoding() { return 'utf-8'; }
    decode(bytes) {
      if (bytes === undefined) return '';
      if (bytes instanceof ArrayBuffer) return decode(bytes, 0, bytes.byteLength);
      if (ArrayBuffer.isView(bytes)) return decode(bytes.buffer, bytes.byteOffset, bytes.byteOffset + bytes.byteLength);
      throw new TypeError('TextDecoder.decode: got no bytes');
    }
  }

  const escape = (s) => encodeURIComponent(s).replace(/%20/g, '+').replace(/[!'()~]/g, (c) => '%' + c.charCodeAt(0).toString(16).toUpperCase());
  const unescape = (s) => {
    s = s.replace(/\+/g, ' ');
    try { return decodeURIComponent(s); } catch { return s; }
  };

  class URLSearchParams {
    #list = [];
    #changed;
    constructor(init = '', changed) {
      this.#changed = changed;
      if (typeof init === 'object' && init !== null) {
        const pairs = typeof init[Symbol.iterator] === 'function' ? init : Object.entries(init);
        for (const [k, v] of pairs) this.#list.push([String(k), String(v)]);
        return;
      }
      for (const part of String(init).replace(/^\?/, '').split('&')) {
        if (part === '') continue;
        const i = part.indexOf('=');
        this.#list.push(i < 0 ? [unescape(part), ''] : [unescape(part.slice(0, i)), unescape(part.slice(i + 1))]);
      }
    }
    #set(list) {
      this.#list = list;
      if (this.#changed) this.#changed(this.toString());
    }
    get size() { return this.#list.length; }
    get(name) { return this.#list.find(([k]) => k === String(name))?.[1] ?? null; }
    getAll(name) { return this.#list.filter(([k]) => k === String(name)).map(([, v]) => v); }
    has(name) { return this.#list.some(([k]) => k === String(name)); }
    append(name, value) { this.#set([...this.#list, [String(name), String(value)]]); }
    delete(name) { this.#set(this.#list.filter(([k]) => k !== String(name))); }
    set(name, value) {
      const i = this.#list.findIndex(([k]) => k === String(name));
      const pair = [String(name), String(value)];
      if (i < 0) this.#set([...this.#list, pair]);
      else this.#set(this.#list.filter(([k], j) => k !== pair[0] || j === i).map((p) => (p[0] === pair[0] ? pair : p)));
    }
    sort() { this.#set(this.#list.toSorted(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0))); }
    forEach(fn, self) { for (const [k, v] of this.#list) fn.call(self, v, k, this); }
    keys() { return this.#list.map(([k]) => k).values(); }
    values() { return this.#list.map(([, v]) => v).values(); }
    entries() { return this.#list.map((p) => [...p]).values(); }
    [Symbol.iterator]() { return this.entries(); }
    toString() { return this.#list.map(([k, v]) => escape(k) + '=' + escape(v)).join('&'); }
  }

  // The parts of a URL; assigning a part takes it as text.
  class URL {
    #p;
    #params;
    constructor(url, base) { this.#p = parseURL(String(url), base === undefined ? '' : String(base)); }
    static canParse(url, base) {
      try { new URL(url, base); return true; } catch { return false; }
    }
    get href() {
      const p = this.#p;
      const user = p.username === '' ? '' : p.username + (p.password === '' ? '' : ':' + p.password) + '@';
      return p.protocol + (p.slashes ? '//' + user + this.host : '') + p.pathname + p.search + p.hash;
    }
    set href(url) {
      this.#p = parseURL(String(url), '');
      this.#params = undefined;
    }
    get origin() { return this.#p.special ? this.#p.protocol + '//' + this.host : 'null'; }
    get host() { return this.#p.hostname + (this.#p.port === '' ? '' : ':' + this.#p.port); }
    get protocol() { return this.#p.protocol; }
    get username() { return this.#p.username; }
    get password() { return this.#p.password; }
    get hostname() { return this.#p.hostname; }
    get port() { return this.#p.port; }
    get pathname() { return this.#p.pathname; }
    get search() { return this.#p.search; }
    get hash() { return this.#p.hash; }
    set hostname(x) { this.#p.hostname = String(x); }
    set port(x) { this.#p.port = String(x); }
    set pathname(x) { this.#p.pathname = String(x).replace(/^(?!\/)/, '/'); }
    set hash(x) { this.#p.hash = x === '' ? '' : '#' + String(x).replace(/^#/, ''); }
    set search(x) {
      this.#p.search = x === '' ? '' : '?' + String(x).replace(/^\?/, '');
      this.#params = undefined;
    }
    get searchParams() {
      return (this.#params ??= new URLSearchParams(this.#p.search, (s) => { this.#p.search = s === '' ? '' : '?' + s; }));
    }
    toString() { return this.href; }
    toJSON() { return this.href; }
  }

  return { URL, URLSearchParams, structuredClone, AbortController, AbortSignal, TextEncoder, TextDecoder };
})
