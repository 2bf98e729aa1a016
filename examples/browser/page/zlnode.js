// A client for browsers of a node's WebSocket port: requests, one-way messages and
// pushes over STREAM, heartbeats, reasons for closing, and connecting anew.
//
//   const client = new Client("ws://127.0.0.1:7700/", {
//     onState(state) { … },          // see Client
//     onPush(name, value) { … },
//   });
//   const reply = await client.request("move", { dx: 1, dy: 0 });

import { Codec, CloseReason, FrameError, Kind, Names, closing, decode, encode, goodbye, inflate } from "./stream.js";

export { CloseReason, Codec, Kind };

const defaults = Object.freeze({
  ping: 1000, // milliseconds, as all times here
  silence: 5000,
  timeout: 30000,
  connect: 5000,
  backoffMin: 100,
  backoffMax: 5000,
  frameMax: 1 << 20, // bytes of a received frame or inflated payload
  outMax: 1 << 20, // bytes that wait to be sent
  reconnect: true,
});

// A RemoteError is the server's answer to a request that failed there. code is the
// kind of failure in snake case, such as "rejected".
export class RemoteError extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

// A Closed says why there is no connection. reason is a CloseReason if the server
// told one, else undefined.
export class Closed extends Error {
  constructor(message, { reason, text = "", final = false } = {}) {
    super(message);
    this.reason = reason;
    this.final = final || reason === CloseReason.protocolError || reason === CloseReason.clientClose;
    // Another Session has taken the place, or the application wants the client away.
    if (reason === CloseReason.serverDrain && /^(replaced|kicked)(: |$)/.test(text)) this.final = true;
  }
}

// Client is a connection that is made anew when it is lost, at the next of its URLs.
//
// onState gets "connecting", "connected", "disconnected" with a Closed, and "ended" with
// one when no further attempt is made: after close(), or when the reason for closing is
// final. Nothing of the old connection goes over to the new one: requests under way fail
// with the Closed, and the application logs in again at every "connected".
//
// Values are sent as JSON, an Uint8Array as raw bytes. JSON of typed handlers has 64-bit
// integers as decimal strings.
export class Client {
  #urls;
  #options;
  #socket;
  #clock; // interval of the open connection
  #retry; // timer of the next attempt
  #step = 0; // of the back-off, milliseconds
  #opened = 0;
  #heard = 0;
  #ticked = 0;
  #seq = 0n; // never used twice, over all connections
  #pending = new Map();
  #ended = false;

  constructor(urls, options = {}) {
    this.#urls = [urls].flat();
    this.#options = { onState() {}, onPush() {}, ...defaults, ...options };
    this.#connect();
  }

  // request resolves to the reply's value, or fails with a RemoteError, a Closed or,
  // after the timeout, an Error.
  request(name, value, { timeout = this.#options.timeout } = {}) {
    return new Promise((resolve, reject) => {
      const seq = ++this.#seq;
      this.#put({ kind: Kind.request, name, seq, ...payloadOf(value) });
      const timer = setTimeout(() => {
        this.#pending.delete(seq);
        reject(new Error(`no reply to ${name} in ${timeout} ms`));
      }, timeout);
      this.#pending.set(seq, { resolve, reject, timer });
    });
  }

  // send sends a one-way message, or throws if it cannot be sent. Whether it arrives
  // is not known.
  send(name, value) {
    this.#put({ kind: Kind.send, name, ...payloadOf(value) });
  }

  // close ends the client. The server is told.
  close() {
    if (this.#ended) return;
    clearTimeout(this.#retry);
    if (this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(goodbye());
    this.#lost(new Closed("the client was closed", { final: true }));
  }

  #put(packet) {
    if (packet.name.startsWith(Names.reserved)) throw new Error(`${packet.name} belongs to the protocol`);
    if (this.#socket?.readyState !== WebSocket.OPEN) throw new Closed("there is no connection");
    const frame = encode(packet);
    if (this.#socket.bufferedAmount + frame.length > this.#options.outMax) throw new Error("the server takes data too slowly");
    this.#socket.send(frame);
  }

  #connect() {
    const url = this.#urls[0];
    this.#urls.push(this.#urls.shift());
    this.#options.onState("connecting");
    const socket = new WebSocket(url);
    this.#socket = socket;
    socket.binaryType = "arraybuffer";
    const slow = setTimeout(() => this.#fail(socket, "the server did not answer in time"), this.#options.connect);
    socket.onopen = () => {
      clearTimeout(slow);
      if (this.#socket !== socket) return;
      this.#opened = this.#heard = this.#ticked = performance.now();
      this.#clock = setInterval(() => this.#tick(socket), this.#options.ping);
      this.#options.onState("connected");
    };
    socket.onmessage = ({ data }) => {
      if (this.#socket !== socket) return;
      try {
        this.#take(socket, data);
      } catch (e) {
        if (!(e instanceof FrameError)) throw e;
        this.#lost(new Closed(`the server broke the protocol: ${e.message}`, { final: true }));
      }
    };
    socket.onclose = ({ code, reason }) => {
      clearTimeout(slow);
      this.#fail(socket, code === 1006 ? "the connection failed" : `the server closed with status ${code} ${reason}`);
    };
  }

  #fail(socket, message) {
    if (this.#socket === socket) this.#lost(new Closed(message));
  }

  // lost ends the connection for good and plans the next one.
  #lost(cause) {
    const socket = this.#socket;
    this.#socket = undefined;
    clearInterval(this.#clock);
    socket?.close();
    const pending = [...this.#pending.values()];
    this.#pending.clear();
    for (const { reject, timer } of pending) {
      clearTimeout(timer);
      reject(cause);
    }
    const { onState, reconnect, backoffMin, backoffMax } = this.#options;
    this.#ended = cause.final || !reconnect;
    if (socket) onState("disconnected", cause);
    if (this.#ended) {
      onState("ended", cause);
      return;
    }
    // A server that accepts and closes is no better than none.
    if (this.#opened && performance.now() - this.#opened > backoffMax) this.#step = 0;
    this.#opened = 0;
    const step = Math.max(this.#step, backoffMin);
    this.#step = Math.min(2 * step, backoffMax);
    this.#retry = setTimeout(() => this.#connect(), step * (1 - Math.random() / 2));
  }

  // tick is run about once a second; a page in the background runs late, and then the
  // server is given one more interval to be heard.
  #tick(socket) {
    const now = performance.now();
    const late = now - this.#ticked > 2 * this.#options.ping;
    this.#ticked = now;
    if (!late && now - this.#heard > this.#options.silence) {
      this.#fail(socket, "the server fell silent");
      return;
    }
    socket.send(encode({ kind: Kind.control, name: Names.ping }));
  }

  #take(socket, data) {
    if (!(data instanceof ArrayBuffer)) throw new FrameError("a message is text");
    if (data.byteLength > this.#options.frameMax) throw new FrameError("a frame is too large");
    this.#heard = performance.now();
    const packet = decode(new Uint8Array(data));
    switch (packet.kind) {
      case Kind.send:
        this.#options.onPush(packet.name, this.#valueOf(packet), packet);
        return;
      case Kind.response:
      case Kind.error:
        this.#answer(packet);
        return;
      case Kind.control:
        this.#control(socket, packet);
        return;
      default:
        throw new FrameError("a server must not send a request");
    }
  }

  #answer(packet) {
    const waiting = this.#pending.get(packet.seq);
    if (!waiting) return; // it came too late
    this.#pending.delete(packet.seq);
    clearTimeout(waiting.timer);
    const value = this.#valueOf(packet);
    if (packet.kind === Kind.response) waiting.resolve(value);
    else waiting.reject(new RemoteError(value?.code, value?.message));
  }

  #control(socket, packet) {
    switch (packet.name) {
      case Names.ping:
        socket.send(encode({ kind: Kind.control, name: Names.pong }));
        return;
      case Names.pong:
        return;
      case Names.closing: {
        const { reason, text } = closing(packet.payload);
        const name = Object.keys(CloseReason).find((k) => CloseReason[k] === reason);
        this.#lost(new Closed(text ? `${name}: ${text}` : name, { reason, text }));
        return;
      }
      default:
        throw new FrameError("the control is unknown");
    }
  }

  #valueOf(packet) {
    const plain = inflate(packet, this.#options.frameMax);
    if (packet.codec !== Codec.json) return plain;
    try {
      return plain.length === 0 ? undefined : JSON.parse(new TextDecoder().decode(plain));
    } catch (e) {
      throw new FrameError(`the payload is not JSON: ${e.message}`);
    }
  }
}

function payloadOf(value) {
  if (value instanceof Uint8Array) return { codec: Codec.raw, payload: value };
  return { codec: Codec.json, payload: new TextEncoder().encode(JSON.stringify(value ?? null)) };
}
