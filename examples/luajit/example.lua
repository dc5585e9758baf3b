-- dsh-session from LuaJIT, by its C header alone: the foreign function interface reads the declarations as they stand.
--
--     luajit example.lua LIBRARY HEADER FOLDER
local ffi = require("ffi")
local library_path, header_path, folder = arg[1], arg[2], arg[3]

local file = assert(io.open(header_path))
local header = file:read("*a")
file:close()
-- No preprocessor here: its lines go, with what they enclose for C++ and the one function that has a body.
header = header:gsub("/%*.-%*/", ""):gsub('#ifdef __cplusplus.-#endif[^\n]*', ""):gsub("static inline.-\n}", ""):gsub("#[^\n]*", "")
ffi.cdef(header)
local dsh = ffi.load(library_path)

local err = ffi.new("dsh_error *[1]")

local function check(status)
    if status < 0 then
        local message = dsh.dsh_error_message(err[0])
        local text = ffi.string(message.ptr, message.len)
        dsh.dsh_error_free(err[0])
        error({ code = status, message = text })
    end
    return status
end

local store = ffi.new("dsh_store *[1]")
local session = ffi.new("dsh_session *[1]")
local events = ffi.new("dsh_events *[1]")
local event = ffi.new("dsh_event")
event.struct_size = ffi.sizeof("dsh_event")

check(dsh.dsh_store_open(folder, #folder, nil, store, err))
local new = '{"cwd":"/repo"}'
check(dsh.dsh_session_create(store[0], new, #new, session, err))
for turn = 1, 3 do
    local kind, data = "plugin:example/turn", ('{"turn":%d}'):format(turn)
    check(dsh.dsh_session_append(session[0], kind, #kind, data, #data, nil, nil, err))
end
check(dsh.dsh_session_flush(session[0], nil, err))

local count = 0
check(dsh.dsh_session_events(session[0], 0, 3, events, err))
while check(dsh.dsh_events_next(events[0], event, err)) == dsh.DSH_OK do
    assert(ffi.string(event.data.ptr, event.data.len) == ('{"turn":%d}'):format(count + 1))
    count = count + 1
end
dsh.dsh_events_free(events[0])
check(dsh.dsh_session_close(session[0], err))
dsh.dsh_session_free(session[0])

local done, failure = pcall(function()
    check(dsh.dsh_session_open(store[0], "nowhere", 7, nil, session, err))
end)
assert(not done and failure.code == dsh.DSH_E_SESSION_NOT_FOUND)
print(failure.message)
dsh.dsh_store_free(store[0])
assert(count == 3)
print("luajit: 3 events: ok")
