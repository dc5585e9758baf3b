// Sessions whole from C++: listeners, validators, projections, resume, fork, folds. The first argument is an empty folder.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <type_traits>

#include "dsh_session.hpp"

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
            std::exit(1); \
        } \
    } while (0)

static_assert(!std::is_copy_constructible_v<dsh::Subscription> && std::is_nothrow_move_constructible_v<dsh::Subscription>);
static_assert(!std::is_copy_constructible_v<dsh::Messages> && std::is_nothrow_move_constructible_v<dsh::Messages>);

// The error that a call throws.
template <typename Call>
static dsh::Error thrown(Call call)
{
    try {
        call();
    } catch (const dsh::Error &error) {
        return error;
    }
    std::fprintf(stderr, "nothing was thrown\n");
    std::exit(1);
}

static bool contains(std::string_view text, std::string_view part)
{
    return text.find(part) != std::string_view::npos;
}

static const char USER[] = R"({"id":"u1","role":"user","source":{"kind":"user"},"content":[{"type":"text","text":"hello"}]})";
static const char TURN[] = R"({"turn":1})";

static std::uint64_t append_message(dsh::Session &session)
{
    dsh::AppendOptions options;
    options.surface = DSH_SURFACE_APPEND;
    return session.append("user/message", USER, options);
}

static dsh::StoreSettings settings()
{
    dsh::StoreSettings settings;
    settings.event_types = R"(["acme/usage",{"type":"acme/redact","changesMessages":true}])";
    return settings;
}

static void live(dsh::Store &store)
{
    auto session = store.create(R"({"id":"parent","cwd":"/repo"})");
    CHECK(!session.title() && !session.request_header() && !session.request_context() && session.messages().empty());
    CHECK(session.write_state() == DSH_WRITE_STATE_LIVE && contains(session.tool_history(), "\"updates\":[]"));
    CHECK(session.append("turn/start", TURN) == 0 && append_message(session) == 1);
    CHECK(session.append_record("plugin:acme/state", "7") == 2);
    dsh::Surface surface = session.surface();
    CHECK(surface.nodes == std::vector<std::uint64_t>{1} && surface.replace_generation == 0 && surface.content_generation == 0);
    dsh::Messages messages = session.messages();
    for (const dsh::MessageView &message : messages) {
        CHECK(message.seq == 1 && message.text == USER);
    }
    CHECK(messages.size() == 1 && messages[0].text == *session.message_of(1) && !session.message_of(0));
    CHECK(session.transcript().next()->seq == 1 && session.closers().next()->type == "turn/end");
    CHECK(session.event_at(2)->view().data == "7" && !session.event_at(3) && !session.current_batch_publication());
    CHECK(session.is_own_seq(2) && !session.is_own_seq(3) && session.first_live_seq() == 0 && session.first_lifecycle_seq() == 0);
    CHECK(store.live_ids() == "[\"parent\"]" && store.get_session("parent").next_seq() == 3);
    CHECK(thrown([&] { store.fork("parent"); }).code() == DSH_E_FORK_UNAVAILABLE);
    auto child = store.fork("parent", 1, R"({"id":"child"})");
    CHECK(child.inherited_event_count() == 2 && child.next_seq() == 4 && contains(child.header(), "/repo"));
    session.close();
    CHECK(messages[0].text == USER);
    CHECK(thrown([&] { store.get_session("parent"); }).code() == DSH_E_SESSION_NOT_FOUND);
    auto again = store.resume("parent");
    CHECK(again.next_seq() == 5 && again.first_live_seq() == 4 && again.event_at(3)->view().type == "turn/end");
}

static void folds(dsh::Store &store)
{
    std::string rows = R"({"type":"turn/start","seq":0,"time":5,"data":{"turn":1}})" "\n";
    CHECK(contains(dsh::fold_surface(rows), "\"nodes\":[]") && contains(dsh::fold_surface(rows, 0, &store), "\"nodes\":[]"));
    CHECK(!dsh::fold(DSH_FOLD_TITLE, rows) && contains(*dsh::fold(DSH_FOLD_TOOL_HISTORY, rows), "\"tools\":[]"));
    CHECK(contains(dsh::closers(rows), "\"interrupted\""));
    dsh::ForkSeed seed = dsh::fork_seed(rows, 0);
    CHECK(seed.inherited_event_count == 1);
    auto session = store.create_seeded(R"({"id":"seeded","isSeeded":true})", seed.rows, seed.inherited_event_count);
    CHECK(session.next_seq() == 3 && !session.is_own_seq(0));
    CHECK(thrown([&] { store.create_seeded("", "{}"); }).rule() == "EVENT_ENVELOPE_INVALID");
}

// Functions are called, what they throw is contained, and what they hold is given back once.
static void listeners()
{
    auto store = dsh::Store::in_memory(settings());
    auto held = std::make_shared<int>(0);
    std::string logged;
    store.set_log_callback([&](int, std::string_view line) { logged = line; });
    int made = 0, gone = 0, flushed = 0;
    auto on_created = store.on_created([&](dsh::Session &session) {
        ++made;
        if (session.id() == "vetoed") {
            throw std::runtime_error("not this one");
        }
    });
    auto on_disposed = store.on_disposed([&](dsh::Session &session) { gone += session.write_state() == DSH_WRITE_STATE_REMOVED; });
    auto on_flush = store.on_flush([&](dsh::Session &) {
        if (++flushed == 2) {
            throw 7;
        }
    });
    {
        auto subscription = store.on_event([held, &store](dsh::Session &session, const dsh::EventView &event) {
            CHECK(session.next_seq() == event.seq + 1);
            CHECK(thrown([&] { session.append("turn/start", TURN); }).rule() == "APPEND_REENTRANT");
            CHECK(store.get_session(session.id()).next_seq() == session.next_seq());
            if (++*held == 2) {
                throw std::logic_error("the second one is too much");
            }
        });
        auto session = store.create(R"({"id":"a"})");
        session.append("turn/start", TURN);
        session.append("acme/usage", "{}");
        CHECK(*held == 2 && contains(logged, "the second one is too much") && held.use_count() == 2);
        session.flush();
        dsh::Error error = thrown([&] { session.flush(); });
        CHECK(error.code() == DSH_E_FLUSH_FAILED && ::dsh_error_code(::dsh_error_cause(error.get(), 0)) == DSH_E_SESSION_REFUSED);
    }
    CHECK(held.use_count() == 1 && made == 1 && gone == 1);
    dsh::Error vetoed = thrown([&] { store.create(R"({"id":"vetoed"})"); });
    CHECK(vetoed.code() == DSH_E_SESSION_REFUSED && vetoed.summary() == "not this one" && gone == 2);

    auto session = store.create(R"({"id":"b"})");
    auto validator = store.add_validator([held](dsh::Session &lent, const dsh::EventView &event) {
        if (event.type == "acme/usage") {
            lent.append("acme/usage", "{}"); // refused, and what that throws is the cause
        }
    });
    dsh::Error error = thrown([&] { session.append("acme/usage", "{}"); });
    CHECK(error.rule() == "DISPATCH_REJECTED" && ::dsh_error_code(::dsh_error_cause(error.get(), 0)) == DSH_E_EVENT_REFUSED);
    validator.cancel();
    CHECK(held.use_count() == 1 && session.append("acme/usage", "{}") == 0);
}

static void projections()
{
    auto store = dsh::Store::in_memory(settings());
    auto session = store.create();
    append_message(session);
    CHECK(thrown([&] { session.append("acme/redact", "{}"); }).rule() == "PROJECTION_MISSING");
    int calls = 0;
    auto redact = [&](const dsh::EventView &event, const dsh::ProjectionContext &context) {
        ++calls;
        CHECK(context.nodes() == std::vector<std::uint64_t>{0} && context.is_on_surface(0) && context.base_seq() == 0);
        CHECK(context.event(0)->view().type == "user/message" && !context.event(9) && contains(*context.message(0), "u1"));
        CHECK(context.projected().size() == (calls > 1 ? 1U : 0U));
        if (event.data != "{}") {
            throw std::invalid_argument("no such target");
        }
        dsh::ProjectedMessage blank{0, R"({"id":"u1","role":"user","source":{"kind":"user"},"content":[]})"};
        return std::vector<dsh::ProjectedMessage>{blank};
    };
    auto registration = store.register_projection("acme/redact", redact);
    CHECK(thrown([&] { (void)store.register_projection("acme/redact", redact); }).rule() == "PROJECTION_ALREADY_REGISTERED");
    session.append("acme/redact", "{}");
    CHECK(contains(session.messages()[0].text, "\"content\":[]") && session.surface().content_generation == 1);
    CHECK(thrown([&] { session.append("acme/redact", R"({"target":1})"); }).rule() == "PROJECTION_REJECTED" && calls == 2);
    registration.cancel();
    CHECK(thrown([&] { session.messages(); }).rule() == "PROJECTION_REMOVED");
    dsh::StoreSettings unchecked;
    unchecked.checks_stored_rules = false;
    auto free = dsh::Store::in_memory(unchecked);
    CHECK(free.create().append("turn/end", R"({"turn":1,"reason":{"kind":"completed"}})") == 0);
    CHECK(thrown([&] { session.append("turn/end", R"({"turn":1,"reason":{"kind":"completed"}})"); }).code() == DSH_E_EVENT_REFUSED);
}

static void uploads()
{
    dsh::UploadExclusions exclusions;
    CHECK(exclusions.judge("s").verdict == DSH_UPLOAD_UNMATCHED);
    auto of_titles = exclusions.add([](const dsh::Upload &upload) { return upload.session_id == "s" && upload.purpose == "title"; });
    CHECK(exclusions.judge("s", "title").verdict == DSH_UPLOAD_EXCLUDED && exclusions.judge("s").verdict == DSH_UPLOAD_UNMATCHED);
    CHECK(exclusions.judge("s", std::string_view()).verdict == DSH_UPLOAD_UNMATCHED);
    {
        auto failing = exclusions.add([](const dsh::Upload &) -> bool { throw std::runtime_error("no list"); });
        auto judged = exclusions.judge("s");
        CHECK(judged.verdict == DSH_UPLOAD_FAILED && judged.failure->code() == DSH_E_SESSION_REFUSED && judged.failure->summary() == "no list");
        CHECK(exclusions.judge("s", "title").verdict == DSH_UPLOAD_EXCLUDED && !exclusions.judge("s", "title").failure);
    }
    CHECK(exclusions.judge("s").verdict == DSH_UPLOAD_UNMATCHED);
    of_titles.cancel();
    CHECK(exclusions.judge("s", "title").verdict == DSH_UPLOAD_UNMATCHED);
    CHECK(thrown([&] { exclusions.judge(""); }).code() == DSH_E_INVALID_ARGUMENT);

    auto store = dsh::Store::in_memory(settings());
    auto session = store.create(R"({"id":"s"})");
    session.append("acme/usage", TURN);
    session.append("acme/usage", TURN);
    session.append("session-log-deepseek/delivery-accepted", R"({"sessionId":"s","sessionFormatVersion":4,"throughSeq":0})");
    dsh::DeliveryFold fold("s");
    CHECK(!fold.watermark());
    for (const dsh::EventView &event : session.events()) {
        fold.see(event);
    }
    CHECK(fold.watermark() == 0U);
    auto next = session.events().next_upload(fold.watermark());
    CHECK(next.kind == DSH_NEXT_UPLOAD_EVENTS && next.first_seq == 1 && next.last_seq == 2);
    CHECK(session.events().next_upload(std::nullopt, 1).kind == DSH_NEXT_UPLOAD_TOO_LARGE);
    CHECK(session.events().next_upload(2).kind == DSH_NEXT_UPLOAD_NOTHING);
}

int main(int count, char **arguments)
{
    CHECK(count == 2);
    auto store = dsh::Store::open(std::string(arguments[1]) + "/sessions", settings());
    live(store);
    folds(store);
    listeners();
    projections();
    uploads();
    std::printf("sessions: ok\n");
}
