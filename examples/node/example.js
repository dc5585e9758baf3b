// dsh-session from Node, by its C header alone: koffi is told the prototypes that stand there.
//
//     npm install && node example.js LIBRARY HEADER FOLDER
'use strict';

const fs = require('node:fs');
const koffi = require('koffi');

const [libraryPath, headerPath, folder] = process.argv.slice(2);
const header = fs.readFileSync(headerPath, 'utf8').replace(/\/\*[\s\S]*?\*\//g, '').replace(/\/\/.*$/gm, '');
const library = koffi.load(libraryPath);

// The types: every opaque handle of the header, the two structs of text, and an event.
for (const [, name] of header.matchAll(/typedef struct (dsh_\w+) \1;/g)) {
  koffi.opaque(name);
}
koffi.alias('dsh_status', 'int32_t');
koffi.struct('dsh_str', { ptr: 'char *', len: 'size_t' });
koffi.struct('dsh_buffer', { data: 'char *', len: 'size_t', owner: 'void *' });
koffi.struct('dsh_event', {
  struct_size: 'size_t', seq: 'uint64_t', time: 'int64_t', flags: 'uint32_t', reserved: 'uint32_t',
  type: 'dsh_str', row: 'dsh_str', data: 'dsh_str', surface_op: 'dsh_str', source_event_seqs: 'dsh_str', owner: 'void *',
});
koffi.struct('dsh_append_options', { struct_size: 'size_t' });
koffi.struct('dsh_store_settings', { struct_size: 'size_t' });

// The codes, by name.
const codes = Object.fromEntries([...header.matchAll(/(DSH_\w+) = (-?\d+),/g)].map(([, name, value]) => [name, Number(value)]));

// A function as the header declares it; results that are pointers to pointers are out parameters.
function declared(name) {
  const found = new RegExp(`^(\\w+) ${name}\\(([^)]*)\\);`, 'm').exec(header);
  const parameters = found[2].replace(/\s+/g, ' ').split(', ').map((parameter) => {
    const out = /\*\*\w+$|^dsh_event \*\w+$|^uint64_t \*\w+$/.test(parameter) ? '_Out_ ' : '';
    return out + parameter;
  });
  return library.func(`${found[1]} ${name}(${parameters.join(', ')})`);
}

const text = (string) => [string, Buffer.byteLength(string)];
const decode = (view) => (view.ptr === null ? '' : typeof view.ptr === 'string' ? view.ptr : koffi.decode(view.ptr, 'char', Number(view.len)));

const dsh = {};
for (const name of ['store_open', 'store_free', 'session_create', 'session_append', 'session_flush', 'session_events', 'session_close',
  'session_free', 'session_open', 'events_free', 'error_message', 'error_free']) {
  dsh[name] = declared(`dsh_${name}`);
}
dsh.events_next = library.func('dsh_status dsh_events_next(dsh_events *events, _Inout_ dsh_event *event, _Out_ dsh_error **err)');

function check(status, error) {
  if (status < 0) {
    const message = decode(dsh.error_message(error[0]));
    dsh.error_free(error[0]);
    throw Object.assign(new Error(message), { code: status });
  }
  return status;
}

const error = [null];
const store = [null];
const session = [null];
const events = [null];
check(dsh.store_open(...text(folder), null, store, error), error);
check(dsh.session_create(store[0], ...text('{"cwd":"/repo"}'), session, error), error);
for (let turn = 1; turn <= 3; turn++) {
  const seq = [0];
  check(dsh.session_append(session[0], ...text('plugin:example/turn'), ...text(JSON.stringify({ turn })), null, seq, error), error);
}
check(dsh.session_flush(session[0], null, error), error);

check(dsh.session_events(session[0], 0, 3, events, error), error);
const empty = { ptr: null, len: 0 };
const event = { struct_size: koffi.sizeof('dsh_event'), seq: 0, time: 0, flags: 0, reserved: 0,
  type: empty, row: empty, data: empty, surface_op: empty, source_event_seqs: empty, owner: null };
let count = 0;
while (check(dsh.events_next(events[0], event, error), error) === codes.DSH_OK) {
  if (Number(event.seq) !== count) throw new Error(`seq ${event.seq} instead of ${count}`);
  count++;
}
dsh.events_free(events[0]);
check(dsh.session_close(session[0], error), error);
dsh.session_free(session[0]);

try {
  check(dsh.session_open(store[0], ...text('nowhere'), null, session, error), error);
} catch (failure) {
  if (failure.code !== codes.DSH_E_SESSION_NOT_FOUND) throw failure;
  console.log(failure.message);
}
dsh.store_free(store[0]);
if (count !== 3) throw new Error(`${count} events`);
console.log(`node: ${count} events: ok`);
