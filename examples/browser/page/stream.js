// The STREAM frame format: packets to bytes and back. See docs/PROTOCOL.md.
//
// A packet is a plain object:
//
//   kind         one of Kind
//   codec        one of Codec; default raw
//   seq          BigInt, the request sequence; absent: none
//   name         string; empty in responses and errors
//   metadata     Map of strings; absent: none
//   correlation  Uint8Array of at most 255 bytes; absent: none
//   flow         { id: string, origin: 1 to 4 }; absent: none
//   payload      Uint8Array; default empty
//   compressed   whether payload is in its compressed form; see inflate

export const Kind = Object.freeze({ send: 1, request: 2, response: 3, error: 4, control: 5 });
export const Codec = Object.freeze({ raw: 0, json: 1, messagePack: 2, protobuf: 3 });
export const Names = Object.freeze({
  ping: "$zlink.heartbeat.ping",
  pong: "$zlink.heartbeat.pong",
  closing: "session-closing",
  reserved: "$zlink.", // begins the names that belong to the protocol
});
export const CloseReason = Object.freeze({
  clientClose: 1, idleTimeout: 2, heartbeatTimeout: 3, serverDrain: 4, protocolError: 5, transportError: 6,
});

const prefixSize = 6;
const marker = 0xf2;
const flags = Object.freeze({ seq: 0x01, metadata: 0x02, compressed: 0x04, correlation: 0x08, flow: 0x10 });
const flowForm = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

const toBytes = new TextEncoder();
const toText = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

// A FrameError says which rule a frame breaks.
export class FrameError extends Error {}

function must(holds, rule) {
  if (!holds) throw new FrameError(rule);
}

// encode returns the frame of a packet as an Uint8Array, or throws a FrameError.
export function encode(packet) {
  const { kind, codec = Codec.raw, name = "", payload = new Uint8Array(), compressed = false } = packet;
  checkParts(packet, kind, codec, name, compressed, payload);
  const w = new Writer();
  w.u8(marker);
  w.u8(kind);
  w.u8(codec);
  w.u8((packet.seq !== undefined ? flags.seq : 0) | (packet.metadata ? flags.metadata : 0) | (compressed ? flags.compressed : 0) |
    (packet.correlation ? flags.correlation : 0) | (packet.flow ? flags.flow : 0));
  if (packet.seq !== undefined) w.u64(packet.seq);
  w.short(toBytes.encode(name), "the name is over 255 bytes");
  if (packet.metadata) {
    const block = encodeMetadata(packet.metadata);
    w.u16(block.length);
    w.bytes(block);
  }
  if (packet.correlation) w.short(packet.correlation, "the correlation id is over 255 bytes");
  if (packet.flow) {
    w.bytes(toBytes.encode(packet.flow.id));
    w.u8(packet.flow.origin);
  }
  const header = w.done();
  const frame = new Uint8Array(prefixSize + header.length + payload.length);
  const view = new DataView(frame.buffer);
  view.setUint16(0, header.length);
  view.setUint32(2, payload.length);
  frame.set(header, prefixSize);
  frame.set(payload, prefixSize + header.length);
  return frame;
}

// decode returns the packet of exactly one frame, or throws a FrameError. The
// packet's byte arrays are views of the frame.
export function decode(frame) {
  must(frame.length >= prefixSize, "the frame ends before its prefix does");
  const view = new DataView(frame.buffer, frame.byteOffset, frame.byteLength);
  const headerSize = view.getUint16(0);
  must(headerSize >= 5, "the header cannot hold its fixed fields");
  must(frame.length === prefixSize + headerSize + view.getUint32(2), "the frame has another length than it says");
  const r = new Reader(frame.subarray(prefixSize, prefixSize + headerSize));
  must(r.u8() === marker, "the marker is not 0xF2");
  const packet = { kind: r.u8(), codec: r.u8() };
  const flag = r.u8();
  must((flag & ~0x1f) === 0, "an unknown flag is set");
  if (flag & flags.seq) packet.seq = r.u64();
  packet.name = text(r.short());
  if (flag & flags.metadata) packet.metadata = decodeMetadata(r.bytes(r.u16()));
  if (flag & flags.correlation) packet.correlation = r.short();
  if (flag & flags.flow) packet.flow = { id: text(r.bytes(36)), origin: r.u8() };
  must(r.left() === 0, "bytes follow the last field of the header");
  packet.payload = frame.subarray(prefixSize + headerSize);
  packet.compressed = (flag & flags.compressed) !== 0;
  checkParts(packet, packet.kind, packet.codec, packet.name, packet.compressed, packet.payload);
  return packet;
}

// checkParts throws unless the parts go together, the same for both directions.
function checkParts({ seq, metadata, flow }, kind, codec, name, compressed, payload) {
  must(kind >= Kind.send && kind <= Kind.control, "the kind is unknown");
  must(codec >= Codec.raw && codec <= Codec.protobuf, "the codec is unknown");
  must(seq === undefined || seq > 0n && seq < 1n << 64n, "the sequence is zero or too large");
  const numbered = kind === Kind.request || kind === Kind.response || kind === Kind.error;
  must(numbered === (seq !== undefined), "the sequence is missing or not allowed for the kind");
  const unnamed = kind === Kind.response || kind === Kind.error;
  must(unnamed === (name === ""), "the name is missing or not allowed for the kind");
  must(!flow || flowForm.test(flow.id) && flow.origin >= 1 && flow.origin <= 4, "the flow is no UUIDv7 with an origin of 1 to 4");
  if (kind !== Kind.control) return;
  must(codec === Codec.raw && !metadata && !flow && !compressed, "a control carries what it must not");
  if (name === Names.ping || name === Names.pong) must(payload.length === 0, "a heartbeat has a payload");
  if (name === Names.closing) closing(payload);
}

// closing takes the payload of session-closing apart: { reason, text }.
export function closing(payload) {
  const r = new Reader(payload);
  const wellFormed = payload.length >= 4 && r.u8() === 1;
  const reason = wellFormed ? r.u8() : 0;
  must(reason >= CloseReason.clientClose && reason <= CloseReason.transportError, "session-closing is malformed");
  const size = r.u16();
  must(size <= 512 && size === r.left(), "session-closing is malformed");
  return { reason, text: new TextDecoder().decode(r.bytes(size)) };
}

// goodbye is the frame with which a client says that it closes.
export function goodbye() {
  return encode({ kind: Kind.control, name: Names.closing, payload: new Uint8Array([1, CloseReason.clientClose, 0, 0]) });
}

function encodeMetadata(metadata) {
  must(metadata.size <= 255, "there are more than 255 metadata entries");
  const w = new Writer();
  w.u8(metadata.size);
  for (const [key, value] of metadata) {
    must(key !== "", "a metadata key is empty");
    w.short(toBytes.encode(key), "a metadata key is over 255 bytes");
    const v = toBytes.encode(value);
    w.u16(v.length);
    w.bytes(v);
  }
  const block = w.done();
  must(block.length <= 1024, "the metadata is over 1,024 bytes");
  return block;
}

function decodeMetadata(block) {
  const r = new Reader(block);
  const metadata = new Map();
  for (let n = r.u8(); n > 0; n--) {
    const key = text(r.short());
    must(key !== "" && !metadata.has(key), "a metadata key is empty or comes twice");
    metadata.set(key, text(r.bytes(r.u16())));
  }
  must(r.left() === 0, "bytes follow the last metadata entry");
  return metadata;
}

function text(bytes) {
  try {
    return toText.decode(bytes);
  } catch {
    throw new FrameError("text is not UTF-8");
  }
}

// inflate returns a packet's payload in plain form. One of more than max bytes is
// refused before memory is taken.
export function inflate(packet, max) {
  const { payload } = packet;
  if (!packet.compressed) return payload;
  must(payload.length > 0 && (payload[0] & 0x3f) === 0, "the compressed payload is malformed");
  const width = [0, 1, 2, 4][payload[0] >> 6];
  must(payload.length > width, "the compressed payload is malformed");
  const block = payload.subarray(1 + width);
  if (width === 0) {
    must(block.length <= max, "the payload is too large");
    return block;
  }
  let size = block.length;
  for (let i = width; i > 0; i--) size += payload[i] * 2 ** (8 * (i - 1));
  must(size <= max && size <= 255 * block.length, "the payload is too large");
  return inflateBlock(block, new Uint8Array(size));
}

// inflateBlock undoes one LZ4 block, which must fill out exactly.
function inflateBlock(block, out) {
  const r = new Reader(block);
  let at = 0;
  const length = (nibble) => {
    let n = nibble;
    if (nibble === 15) {
      for (let more = 255; more === 255; n += more) more = r.u8();
    }
    return n;
  };
  while (r.left() > 0) {
    const token = r.u8();
    const literals = r.bytes(length(token >> 4));
    must(at + literals.length <= out.length, "the compressed payload is malformed");
    out.set(literals, at);
    at += literals.length;
    if (r.left() === 0) break;
    const distance = r.u8() | r.u8() << 8;
    const n = 4 + length(token & 15);
    must(distance > 0 && distance <= at && at + n <= out.length, "the compressed payload is malformed");
    for (const end = at + n; at < end; at++) out[at] = out[at - distance]; // may overlap
  }
  must(at === out.length, "the compressed payload is malformed");
  return out;
}

class Writer {
  #parts = [];

  u8(v) { this.#parts.push(v); }
  u16(v) { this.#parts.push(v >> 8, v & 255); }
  u64(v) { for (let shift = 56n; shift >= 0n; shift -= 8n) this.#parts.push(Number(v >> shift & 255n)); }
  bytes(b) { for (const v of b) this.#parts.push(v); }
  short(b, rule) {
    must(b.length <= 255, rule);
    this.u8(b.length);
    this.bytes(b);
  }
  done() { return Uint8Array.from(this.#parts); }
}

class Reader {
  #b;
  #at = 0;

  constructor(b) { this.#b = b; }

  left() { return this.#b.length - this.#at; }
  bytes(n) {
    must(n <= this.left(), "a field is cut short");
    this.#at += n;
    return this.#b.subarray(this.#at - n, this.#at);
  }
  u8() { return this.bytes(1)[0]; }
  u16() { return this.u8() << 8 | this.u8(); }
  u64() {
    let v = 0n;
    for (const b of this.bytes(8)) v = v << 8n | BigInt(b);
    return v;
  }
  short() { return this.bytes(this.u8()); }
}
