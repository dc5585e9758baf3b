// A program as a C++ host would write it: everything in dsh_session.hpp once. The first argument is an empty folder.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "dsh_session.hpp"

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
            std::exit(1); \
        } \
    } while (0)

static_assert(!std::is_copy_constructible_v<dsh::Store> && std::is_nothrow_move_constructible_v<dsh::Store>);
static_assert(!std::is_copy_constructible_v<dsh::Session> && std::is_nothrow_move_assignable_v<dsh::Session>);
static_assert(!std::is_copy_constructible_v<dsh::Log> && !std::is_copy_constructible_v<dsh::Events>);

// The error that a call throws.
template <typename Call>
static dsh::Error thrown(Call call, int line = __builtin_LINE())
{
    try {
        call();
    } catch (const dsh::Error &error) {
        return error;
    }
    std::fprintf(stderr, "%s:%d: nothing was thrown\n", __FILE__, line);
    std::exit(1);
}

static bool contains(std::string_view text, std::string_view part)
{
    return text.find(part) != std::string_view::npos;
}

static const char NOTE[] = R"({"id":"m","role":"user","source":{"kind":"user"},"content":[{"type":"text","text":"hello"}]})";

static void record(dsh::Store &store)
{
    auto session = store.create(R"({"id":"one","cwd":"/repo"})");
    CHECK(session.id() == "one" && contains(session.header(), "/repo") && session.notices() == "[]");
    CHECK(session.append("turn/start", R"({"turn":1})") == 0);
    dsh::AppendOptions options;
    options.surface = DSH_SURFACE_APPEND;
    options.source_event_seqs = std::vector<std::uint64_t>{0};
    options.time = 1760000000000;
    options.seq = 1;
    CHECK(session.append("user/message", NOTE, options) == 1);
    auto rows = session.append_rows("{\"type\":\"plugin:a/b\",\"data\":1}\n{\"type\":\"plugin:a/b\",\"data\":2}\n");
    CHECK(rows.first_seq == 2 && rows.count == 2 && session.next_seq() == 4 && session.inherited_event_count() == 0);
    CHECK(session.pending().events == 4 && !session.pending().error);
    session.flush();
    CHECK(session.pending().events == 0);

    std::uint64_t seq = 0;
    for (const dsh::EventView &event : session.events()) {
        CHECK(event.seq == seq++ && !event.row.empty());
    }
    CHECK(seq == 4 && session.newest(1).next()->seq == 3);
    dsh::Session moved = std::move(session);
    moved.close();
    dsh::Error error = thrown([&] { moved.flush(); });
    CHECK(error.code() == DSH_E_HANDLE_CLOSED && error.name() == "HANDLE_CLOSED" && error.what() == error.message());
}

static void read_back(dsh::Store &store)
{
    std::optional<dsh::KeptEvent> kept;
    for (const dsh::EventView &event : store.open_log("one").events()) {
        if (event.seq == 1) {
            CHECK(event.surface_op == "\"append\"" && event.source_event_seqs == "[0]" && !event.ignorable);
            CHECK(event.time == 1760000000000 && contains(event.logical_row(), "\"sourceEventSeqs\":[0]"));
            kept.emplace(event);
        }
    }
    dsh::KeptEvent copy = *kept;
    kept.reset();
    CHECK(copy.view().type == "user/message" && copy.view().data == NOTE);

    auto log = store.open_log("one");
    CHECK(log.id() == "one" && log.event_count() == 4 && log.inherited_event_count() == 0 && log.notices() == "[]");
    CHECK(contains(log.header(), "\"id\":\"one\"") && contains(log.check(), "\"events\":4"));
    auto walk = log.events(1, 2);
    auto batch = walk.next_batch(8);
    CHECK(batch.size() == 2 && batch[0].seq == 1 && batch[1].data == "1" && walk.next_batch(8).empty());
    CHECK(log.newest(2).next()->seq == 2);
    CHECK(thrown([&] { log.flush(); }).code() == DSH_E_SESSION_READ_ONLY);
    log.close();
}

static void ask(dsh::Store &store)
{
    auto log = store.create_log(R"({"id":"two","createdAt":5})");
    CHECK(log.append_rows(R"({"type":"plugin:a/b","seq":0,"time":1,"data":0,"ignorable":true})") == 1);
    log.flush();
    log.close();
    int listed = 0;
    for (std::string_view line : store.list()) {
        CHECK(contains(line, "\"header\":"));
        ++listed;
    }
    CHECK(listed == 2 && contains(store.stat("two"), "\"id\":\"two\"") && contains(*store.verify("two").next(), "\"ok\""));
    int verified = 0;
    for (std::string_view line : store.verify()) {
        CHECK(contains(line, "\"outcome\":\"ok\""));
        ++verified;
    }
    CHECK(verified == 2 && contains(store.stats(), "\"sessions\":2") && contains(*store.rows("two").next(), "\"line\":1"));
    auto salvaged = store.salvage("one");
    std::size_t events = 0;
    while (salvaged.next()) {
        ++events;
    }
    CHECK(events == 4 && !salvaged.damage() && !salvaged.after_damage().next());
    CHECK(store.remove("two").empty());
}

// A type that no library knows.
struct HostError {
    std::uint64_t sessions_done;
};

static void watch(dsh::Store &store)
{
    store.create(R"({"id":"three"})").flush();
    std::vector<dsh::Progress> told;
    auto kept = std::make_shared<int>(0);
    {
        auto lines = store.verify(std::nullopt, [&told, kept](const dsh::Progress &progress) {
            told.push_back(progress);
            return true;
        });
        dsh::Lines moved = std::move(lines);
        std::size_t count = 0;
        for (std::string_view line : moved) {
            CHECK(contains(line, "\"outcome\":\"ok\""));
            CHECK(told.size() == ++count && told.back().sessions_done == count && told.back().sessions == 2);
        }
        CHECK(count == 2 && told.back().bytes_done == told.back().bytes && told.back().bytes > 0 && kept.use_count() == 2);
    }
    CHECK(kept.use_count() == 1);

    // False stops the walk, for good.
    auto stopped = store.verify(std::nullopt, [](const dsh::Progress &) { return false; });
    CHECK(thrown([&] { stopped.next(); }).code() == DSH_E_CANCELLED && !stopped.next());

    // What the callback throws comes out of the step as it is, never through the library, whose handles stay usable.
    auto failing = store.verify("one", [](const dsh::Progress &progress) -> bool { throw HostError{progress.sessions_done}; });
    std::uint64_t caught = 0;
    try {
        failing.next();
    } catch (const HostError &error) {
        caught = error.sessions_done;
    }
    CHECK(caught == 1 && !failing.next() && contains(*store.verify("one").next(), "\"ok\""));

    // A call that fails keeps nothing of the callback; a walk that fails tells of no progress.
    auto never = [kept](const dsh::Progress &) -> bool { std::abort(); };
    dsh::CancelToken cancel;
    cancel.fire();
    CHECK(thrown([&] { store.verify(std::nullopt, never, &cancel); }).code() == DSH_E_CANCELLED && kept.use_count() == 2);
    CHECK(thrown([&] { store.verify("nowhere", never).next(); }).code() == DSH_E_SESSION_NOT_FOUND && kept.use_count() == 2);
    store.remove("three");
}

static void errors(dsh::Store &store)
{
    dsh::Error error = thrown([&] { store.open_session("nowhere"); });
    CHECK(error.code() == DSH_E_SESSION_NOT_FOUND && error.session_id() == "nowhere" && !error.seq() && error.os() == 0);
    auto session = store.open_session("one");
    error = thrown([&] { session.append("no/such", "{}"); });
    CHECK(error.rule() == "UNKNOWN_EVENT_TYPE" && error.event_type() == "no/such" && error.index() == 0U);
    error = thrown([&] { session.append("turn/start", "[9007199254740993]"); });
    CHECK(error.code() == DSH_E_NOT_LOSSLESS_JSON && error.json_path() == "$[0]" && error.paths().empty());
    CHECK(thrown([&] { store.open_session("one"); }).code() == DSH_E_SESSION_ALREADY_OWNED);
    dsh::CancelToken cancel;
    cancel.fire();
    CHECK(cancel.is_fired() && thrown([&] { session.flush(&cancel); }).code() == DSH_E_CANCELLED);
    CHECK(thrown([&] { store.list(false, &cancel); }).code() == DSH_E_CANCELLED);
    CHECK(thrown([] { dsh::Store::open(""); }).code() == DSH_E_INVALID_ARGUMENT);
}

int main(int count, char **arguments)
{
    CHECK(count == 2);
    std::string root = std::string(arguments[1]) + "/sessions";
    auto store = dsh::Store::open(root);
    CHECK(store.root() == root);
    auto lines = std::make_shared<int>(0);
    store.set_log_callback([lines](int, std::string_view) { ++*lines; });
    CHECK(lines.use_count() == 2);
    record(store);
    read_back(store);
    ask(store);
    watch(store);
    errors(store);
    store.flush();
    store.set_log_callback({});
    CHECK(lines.use_count() == 1);

    auto memory = dsh::Store::in_memory();
    CHECK(memory.root().empty() && memory.create().append("turn/start", R"({"turn":1})") == 0);
    store.close();
    CHECK(thrown([&] { store.flush(); }).code() == DSH_E_HANDLE_CLOSED);
    std::printf("client: ok\n");
}
