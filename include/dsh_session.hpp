/*
 * dsh_session.hpp: the C interface for C++17 and later. Header only; link with libdsh_session.
 *
 *     auto store = dsh::Store::open("sessions");
 *     auto session = store.create(R"({"cwd":"/repo"})");
 *     session.append("turn/start", R"({"turn":1})");
 *     session.flush();                                    // on disk, whatever happens next
 *     for (const dsh::EventView& event : store.open_log(session.id()).events()) {
 *         std::cout << event.seq << ' ' << event.type << '\n';
 *     }
 *
 * Failures are thrown as dsh::Error, which has every fact of the C error. Handles are move-only and free themselves; close them to learn whether
 * all became durable. What is said in dsh_session.h about threads and lifetimes holds: the string_views of an EventView live until the next step of the
 * walk, those of a KeptEvent as long as it does. After a move a handle may only be destroyed or assigned to.
 */
#ifndef DSH_SESSION_HPP
#define DSH_SESSION_HPP

#include "dsh_session.h"

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dsh {

namespace detail {

/* A C handle and the function that frees it. */
template <typename T, void (*free)(T *)>
struct Free {
    void operator()(T *pointer) const noexcept { free(pointer); }
};

template <typename T, void (*free)(T *)>
using Handle = std::unique_ptr<T, Free<T, free>>;

using ErrorHandle = Handle<::dsh_error, ::dsh_error_free>;

inline std::string_view view(::dsh_str text) noexcept
{
    return text.ptr == nullptr ? std::string_view() : std::string_view(text.ptr, text.len);
}

inline std::string text(::dsh_str text)
{
    return std::string(view(text));
}

inline std::optional<std::uint64_t> count(std::int64_t value) noexcept
{
    return value < 0 ? std::nullopt : std::optional<std::uint64_t>(static_cast<std::uint64_t>(value));
}

} // namespace detail

/* Why a call failed, with every fact that is known. Copies share it. */
class Error : public std::exception {
public:
    explicit Error(detail::ErrorHandle handle) : handle_(std::move(handle)), status_(::dsh_error_code(handle_.get())) {}
    /* A failure that has no object. */
    explicit Error(::dsh_status status) noexcept : status_(status) {}

    const char *what() const noexcept override
    {
        ::dsh_str message = ::dsh_error_message(handle_.get());
        return message.ptr == nullptr ? "an operation of dsh-session failed" : message.ptr;
    }

    /* A DSH_E_... code. */
    ::dsh_status code() const noexcept { return status_; }
    std::string_view name() const noexcept { return detail::view(::dsh_error_name(get())); }
    std::string_view message() const noexcept { return detail::view(::dsh_error_message(get())); }
    std::string_view summary() const noexcept { return detail::view(::dsh_error_summary(get())); }
    std::string_view advice() const noexcept { return detail::view(::dsh_error_advice(get())); }
    /* Texts are empty and numbers absent where they are not known. */
    std::string_view path() const noexcept { return detail::view(::dsh_error_path(get())); }
    std::string_view session_id() const noexcept { return detail::view(::dsh_error_session_id(get())); }
    std::string_view event_type() const noexcept { return detail::view(::dsh_error_event_type(get())); }
    std::string_view version() const noexcept { return detail::view(::dsh_error_version(get())); }
    std::string_view at() const noexcept { return detail::view(::dsh_error_at(get())); }
    std::string_view rule() const noexcept { return detail::view(::dsh_error_rule(get())); }
    std::string_view limit() const noexcept { return detail::view(::dsh_error_limit(get())); }
    std::string_view owner() const noexcept { return detail::view(::dsh_error_owner(get())); }
    std::string_view json_path() const noexcept { return detail::view(::dsh_error_json_path(get())); }
    std::optional<std::uint64_t> seq() const noexcept { return detail::count(::dsh_error_seq(get())); }
    std::optional<std::uint64_t> line() const noexcept { return detail::count(::dsh_error_line(get())); }
    std::optional<std::uint64_t> frame() const noexcept { return detail::count(::dsh_error_frame(get())); }
    std::optional<std::uint64_t> offset() const noexcept { return detail::count(::dsh_error_offset(get())); }
    std::optional<std::uint64_t> index() const noexcept { return detail::count(::dsh_error_index(get())); }
    std::optional<std::uint64_t> expected() const noexcept { return detail::count(::dsh_error_expected(get())); }
    std::optional<std::uint64_t> got() const noexcept { return detail::count(::dsh_error_got(get())); }
    std::optional<std::uint64_t> salvageable() const noexcept { return detail::count(::dsh_error_salvageable(get())); }
    /* The system's errno; 0 where it is not the trouble. */
    int os() const noexcept { return ::dsh_error_os(get()); }

    std::vector<std::string> paths() const
    {
        std::vector<std::string> paths;
        for (std::size_t index = 0; index < ::dsh_error_path_count(get()); ++index) {
            paths.push_back(detail::text(::dsh_error_path_at(get(), index)));
        }
        return paths;
    }

    /* The C object, lent; its causes are reached through it. */
    const ::dsh_error *get() const noexcept { return handle_.get(); }

private:
    std::shared_ptr<::dsh_error> handle_;
    ::dsh_status status_;
};

namespace detail {

/* Makes a call and throws what it fails with; the status that informs. */
template <typename Call>
::dsh_status check(Call &&call)
{
    ::dsh_error *error = nullptr;
    ::dsh_status status = call(&error);
    if (status < 0) {
        throw error == nullptr ? Error(status) : Error(ErrorHandle(error));
    }
    return status;
}

/* Makes a call that fills a buffer. */
template <typename Call>
std::string buffer(Call &&call)
{
    ::dsh_buffer buffer = DSH_BUFFER_INIT;
    check([&](::dsh_error **error) { return call(&buffer, error); });
    Handle<::dsh_buffer, ::dsh_buffer_free> owner(&buffer);
    return buffer.data == nullptr ? std::string() : std::string(buffer.data, buffer.len);
}

/* Makes a call that fills a buffer, or finds that there is nothing to fill it with. */
template <typename Call>
std::optional<std::string> optional_text(Call &&call)
{
    ::dsh_buffer buffer = DSH_BUFFER_INIT;
    if (check([&](::dsh_error **error) { return call(&buffer, error); }) == DSH_ABSENT) {
        return std::nullopt;
    }
    Handle<::dsh_buffer, ::dsh_buffer_free> owner(&buffer);
    return buffer.data == nullptr ? std::string() : std::string(buffer.data, buffer.len);
}

/* Makes a call that fills a list of seqs. */
template <typename Call>
std::vector<std::uint64_t> seqs(Call &&call)
{
    ::dsh_seqs seqs = DSH_SEQS_INIT;
    check([&](::dsh_error **error) { return call(&seqs, error); });
    Handle<::dsh_seqs, ::dsh_seqs_free> owner(&seqs);
    return seqs.len == 0 ? std::vector<std::uint64_t>() : std::vector<std::uint64_t>(seqs.data, seqs.data + seqs.len);
}

/* Fails for a callback: the library owns the error; where none can be made, the code alone says it. */
inline std::int32_t fail(::dsh_status code, std::string_view message, ::dsh_error **error) noexcept
{
    if (message.empty()) {
        message = "a callback threw";
    }
    ::dsh_error_new(code, message.data(), message.size(), error, nullptr);
    return code;
}

/* Runs a callback's function; nothing that it throws gets out. */
template <typename Body>
std::int32_t contained(::dsh_status code, ::dsh_error **error, Body &&body) noexcept
{
    try {
        body();
        return 0;
    } catch (const Error &thrown) {
        return fail(thrown.code(), thrown.summary().empty() ? std::string_view(thrown.what()) : thrown.summary(), error);
    } catch (const std::exception &thrown) {
        return fail(code, thrown.what(), error);
    } catch (...) {
        return fail(code, {}, error);
    }
}

/* Makes a call that opens a handle. */
template <typename Owner, typename Call>
Owner open(Call &&call)
{
    typename Owner::pointer pointer = nullptr;
    check([&](::dsh_error **error) { return call(&pointer, error); });
    return Owner(pointer);
}

/* What a walk needs for range-for: one pass, each step may throw. */
template <typename Walk>
class Iterator {
public:
    using iterator_category = std::input_iterator_tag;
    using value_type = typename Walk::Item;
    using difference_type = std::ptrdiff_t;
    using pointer = const value_type *;
    using reference = const value_type &;

    Iterator() = default;
    explicit Iterator(Walk *walk) : walk_(walk) { ++*this; }
    reference operator*() const { return walk_->item_; }
    pointer operator->() const { return &walk_->item_; }
    Iterator &operator++()
    {
        if (!walk_->step()) {
            walk_ = nullptr;
        }
        return *this;
    }
    void operator++(int) { ++*this; }
    friend bool operator==(const Iterator &one, const Iterator &other) { return one.walk_ == other.walk_; }
    friend bool operator!=(const Iterator &one, const Iterator &other) { return one.walk_ != other.walk_; }

private:
    Walk *walk_ = nullptr;
};

} // namespace detail

/* Stops the calls it is given to; may be fired from any thread and from a signal handler. */
class CancelToken {
public:
    CancelToken() : handle_(detail::open<Owner>(::dsh_cancel_new)) {}
    void fire() noexcept { ::dsh_cancel_fire(handle_.get()); }
    bool is_fired() const noexcept { return ::dsh_cancel_is_fired(handle_.get()); }
    ::dsh_cancel *get() const noexcept { return handle_.get(); }

private:
    using Owner = detail::Handle<::dsh_cancel, ::dsh_cancel_free>;
    Owner handle_;
};

/* One event, lent by a walk until its next step. */
struct EventView {
    std::uint64_t seq = 0;
    std::int64_t time = 0; /* milliseconds since 1970 */
    bool ignorable = false;
    std::string_view type;
    std::string_view row;
    std::string_view data;
    std::string_view surface_op;        /* empty where the row has none */
    std::string_view source_event_seqs; /* as stored; empty where the row has none */

    EventView() = default;
    explicit EventView(const ::dsh_event &event) noexcept
        : seq(event.seq), time(event.time), ignorable((event.flags & DSH_EVENT_IGNORABLE) != 0), type(detail::view(event.type)),
          row(detail::view(event.row)), data(detail::view(event.data)), surface_op(detail::view(event.surface_op)),
          source_event_seqs(detail::view(event.source_event_seqs)), event_(event)
    {
    }

    /* The row with the runs of its sources expanded. */
    std::string logical_row() const
    {
        return detail::buffer(
            [&](::dsh_buffer *out, ::dsh_error **error) { return ::dsh_event_logical_row(&event_, out, error); });
    }

    const ::dsh_event &get() const noexcept { return event_; }

private:
    ::dsh_event event_ = DSH_EVENT_INIT;
};

/* An event that outlives its walk; shares the buffer of its neighbours. */
class KeptEvent {
public:
    explicit KeptEvent(const EventView &event)
    {
        detail::check([&](::dsh_error **error) { return ::dsh_event_retain(&event.get(), &event_, error); });
    }
    KeptEvent(const KeptEvent &other) : KeptEvent(other.view()) {}
    KeptEvent(KeptEvent &&other) noexcept { std::swap(event_, other.event_); }
    KeptEvent &operator=(KeptEvent other) noexcept
    {
        std::swap(event_, other.event_);
        return *this;
    }
    ~KeptEvent() { ::dsh_event_release(&event_); }

    /* Takes over an event that a call kept. */
    static KeptEvent adopt(const ::dsh_event &kept) noexcept
    {
        KeptEvent event;
        event.event_ = kept;
        return event;
    }

    EventView view() const noexcept { return EventView(event_); }

private:
    KeptEvent() = default;

    ::dsh_event event_ = DSH_EVENT_INIT;
};

/* How far long work has come. */
struct Progress {
    std::uint64_t sessions_done = 0;
    std::uint64_t sessions = 0;
    std::uint64_t bytes_done = 0;
    std::uint64_t bytes = 0;
};

/* Told after each step of long work, on the thread that does it; false stops the work with DSH_E_CANCELLED. */
using ProgressCallback = std::function<bool(const Progress &)>;

namespace detail {

/* A progress callback as C knows it. What the host's function throws never crosses the library: it stops the work, is kept here, and is thrown
 * again by the step that told of the progress. */
struct Reporter {
    ProgressCallback callback;
    std::exception_ptr thrown;

    static std::int32_t tell(std::uint64_t sessions_done, std::uint64_t sessions, std::uint64_t bytes_done, std::uint64_t bytes,
                             void *user) noexcept
    {
        Reporter &self = *static_cast<Reporter *>(user);
        try {
            return self.callback(Progress{sessions_done, sessions, bytes_done, bytes}) ? 0 : 1;
        } catch (...) {
            self.thrown = std::current_exception();
            return 1;
        }
    }

    void rethrow()
    {
        if (thrown != nullptr) {
            std::rethrow_exception(std::exchange(thrown, nullptr));
        }
    }
};

} // namespace detail

/* Lines of JSON, walked once: `for (std::string_view line : lines)`. */
class Lines {
public:
    using Item = std::string_view;
    using iterator = detail::Iterator<Lines>;
    using Owner = detail::Handle<::dsh_lines, ::dsh_lines_free>;

    explicit Lines(Owner handle, std::unique_ptr<detail::Reporter> reporter = nullptr)
        : reporter_(std::move(reporter)), handle_(std::move(handle))
    {
    }
    iterator begin() { return iterator(this); }
    iterator end() { return iterator(); }

    /* The next line; none at the end. */
    std::optional<std::string_view> next()
    {
        return step() ? std::optional<std::string_view>(item_) : std::nullopt;
    }

private:
    friend iterator;
    bool step()
    {
        ::dsh_str line = {nullptr, 0};
        ::dsh_error *error = nullptr;
        ::dsh_status status = ::dsh_lines_next(handle_.get(), &line, &error);
        detail::ErrorHandle owner(error);
        if (reporter_ != nullptr) {
            reporter_->rethrow();
        }
        detail::check([&](::dsh_error **out) {
            *out = owner.release();
            return status;
        });
        item_ = detail::view(line);
        return status == DSH_OK;
    }

    /* At an address that stays when this moves: the walk has it. */
    std::unique_ptr<detail::Reporter> reporter_;
    Owner handle_;
    std::string_view item_;
};

/* What an upload takes next; see dsh_next_upload. */
struct NextUpload {
    ::dsh_next_upload_kind kind = DSH_NEXT_UPLOAD_NOTHING;
    std::uint64_t first_seq = 0;
    std::uint64_t last_seq = 0;
    std::uint64_t bytes = 0;
};

/* Events, walked once: `for (const dsh::EventView& event : events)`. */
class Events {
public:
    using Item = EventView;
    using iterator = detail::Iterator<Events>;
    using Owner = detail::Handle<::dsh_events, ::dsh_events_free>;

    explicit Events(Owner handle) : handle_(std::move(handle)) {}
    iterator begin() { return iterator(this); }
    iterator end() { return iterator(); }

    /* The next event; none at the end. */
    std::optional<EventView> next() { return step() ? std::optional<EventView>(item_) : std::nullopt; }

    /* The next events, at most `capacity`; none at the end. */
    std::vector<EventView> next_batch(std::size_t capacity)
    {
        std::vector<::dsh_event> batch(capacity, ::dsh_event DSH_EVENT_INIT);
        std::size_t count = 0;
        detail::check([&](::dsh_error **error) {
            return ::dsh_events_next_batch(handle_.get(), batch.data(), capacity, &count, error);
        });
        return std::vector<EventView>(batch.begin(), batch.begin() + static_cast<std::ptrdiff_t>(count));
    }

    /* What an upload takes next of these events, after the watermark; see dsh_events_next_upload. */
    NextUpload next_upload(std::optional<std::uint64_t> watermark, std::uint64_t bytes_max = DSH_UPLOAD_BYTES_MAX_DEFAULT)
    {
        ::dsh_next_upload next = DSH_NEXT_UPLOAD_INIT;
        std::int64_t after = watermark ? static_cast<std::int64_t>(*watermark) : -1;
        detail::check([&](::dsh_error **error) {
            return ::dsh_events_next_upload(handle_.get(), after, bytes_max, &next, error);
        });
        return NextUpload{static_cast<::dsh_next_upload_kind>(next.kind), next.first_seq, next.last_seq, next.bytes};
    }

    /* After the end of a salvage: the code of what stopped it, with its message; none where the log is whole. */
    std::optional<std::pair<::dsh_status, std::string>> damage()
    {
        const ::dsh_error *damage = nullptr;
        detail::check([&](::dsh_error **error) { return ::dsh_events_damage(handle_.get(), &damage, error); });
        if (damage == nullptr) {
            return std::nullopt;
        }
        return std::make_pair(::dsh_error_code(damage), detail::text(::dsh_error_message(damage)));
    }

    /* After the end of a salvage: what is readable after the damage. */
    Lines after_damage()
    {
        return Lines(detail::open<Lines::Owner>(
            [&](::dsh_lines **out, ::dsh_error **error) { return ::dsh_events_after_damage(handle_.get(), out, error); }));
    }

private:
    friend iterator;
    bool step()
    {
        ::dsh_event event = DSH_EVENT_INIT;
        auto call = [&](::dsh_error **error) { return ::dsh_events_next(handle_.get(), &event, error); };
        bool is_there = detail::check(call) == DSH_OK;
        item_ = EventView(event);
        return is_there;
    }

    Owner handle_;
    EventView item_;
};

namespace detail {

/* Makes a call that keeps an event, or finds that there is none. */
template <typename Call>
std::optional<KeptEvent> kept(Call &&call)
{
    ::dsh_event event = DSH_EVENT_INIT;
    if (check([&](::dsh_error **error) { return call(&event, error); }) == DSH_ABSENT) {
        return std::nullopt;
    }
    return KeptEvent::adopt(event);
}

} // namespace detail

/* One message: a JSON object, lent by its list. */
struct MessageView {
    std::uint64_t seq = 0; /* the event that makes it */
    std::string_view text;
};

/* Messages as they were; never changes. `for (const dsh::MessageView& message : messages)`. */
class Messages {
public:
    using Owner = detail::Handle<::dsh_messages, ::dsh_messages_free>;

    /* Reads the whole list once; the texts stay in the library. */
    explicit Messages(Owner handle) : handle_(std::move(handle))
    {
        std::size_t count = ::dsh_messages_count(handle_.get());
        views_.reserve(count);
        for (std::size_t index = 0; index < count; ++index) {
            ::dsh_message message = DSH_MESSAGE_INIT;
            detail::check([&](::dsh_error **error) { return ::dsh_messages_at(handle_.get(), index, &message, error); });
            views_.push_back(MessageView{message.seq, detail::view(message.text)});
        }
    }

    std::size_t size() const noexcept { return views_.size(); }
    bool empty() const noexcept { return views_.empty(); }
    const MessageView &operator[](std::size_t index) const noexcept { return views_[index]; }
    std::vector<MessageView>::const_iterator begin() const noexcept { return views_.begin(); }
    std::vector<MessageView>::const_iterator end() const noexcept { return views_.end(); }

private:
    Owner handle_;
    std::vector<MessageView> views_;
};

/* The events that make the messages a model sees, in order. */
struct Surface {
    std::vector<std::uint64_t> nodes;
    std::uint64_t replace_generation = 0; /* replacements so far */
    std::uint64_t content_generation = 0; /* replacements and projections: while it stays, messages are only added */
};

/* What an event carries beyond its type and payload. */
struct AppendOptions {
    ::dsh_surface surface = DSH_SURFACE_NONE;
    std::uint64_t surface_start_seq = 0; /* with DSH_SURFACE_REPLACE */
    std::uint64_t surface_end_seq = 0;
    std::optional<std::vector<std::uint64_t>> source_event_seqs;
    std::optional<std::int64_t> time; /* milliseconds since 1970 */
    std::optional<std::uint64_t> seq; /* the seq it must get */
};

/* What waits to be written. */
struct Pending {
    std::uint64_t events = 0;
    std::uint64_t bytes = 0;
    std::optional<Error> error; /* why the last attempt failed */
};

/* Where rows went. */
struct Appended {
    std::uint64_t first_seq = 0;
    std::uint64_t count = 0;
};

/* A session open for appending. */
class Session {
public:
    using Owner = detail::Handle<::dsh_session, ::dsh_session_free>;

    explicit Session(Owner handle) : handle_(std::move(handle)) {}

    std::string_view id() const noexcept { return detail::view(::dsh_session_id(get())); }
    std::string header() const { return text(::dsh_session_header); }
    std::string notices() const { return text(::dsh_session_notices); }

    /* Accepts one event, its payload as JSON text; its seq. */
    std::uint64_t append(std::string_view type, std::string_view data, const AppendOptions &options = {})
    {
        ::dsh_append_options given = DSH_APPEND_OPTIONS_INIT;
        static const std::uint64_t none = 0;
        given.surface = options.surface;
        given.surface_start_seq = options.surface_start_seq;
        given.surface_end_seq = options.surface_end_seq;
        if (options.source_event_seqs) {
            given.source_event_seqs = options.source_event_seqs->empty() ? &none : options.source_event_seqs->data();
            given.source_event_seqs_len = options.source_event_seqs->size();
        }
        given.flags = (options.time ? DSH_APPEND_TIME : 0U) | (options.seq ? DSH_APPEND_SEQ : 0U);
        given.time = options.time.value_or(0);
        given.seq = options.seq.value_or(0);
        std::uint64_t seq = 0;
        detail::check([&](::dsh_error **error) {
            return ::dsh_session_append(get(), type.data(), type.size(), data.data(), data.size(), &given, &seq, error);
        });
        return seq;
    }

    /* Accepts many events, one JSON object a line: all of them or none. */
    Appended append_rows(std::string_view rows)
    {
        Appended result;
        detail::check([&](::dsh_error **error) {
            return ::dsh_session_append_rows(get(), rows.data(), rows.size(), &result.first_seq, &result.count, error);
        });
        return result;
    }

    /* Appends a plugin record, its data as JSON text; its seq. */
    std::uint64_t append_record(std::string_view name, std::string_view data)
    {
        std::uint64_t seq = 0;
        detail::check([&](::dsh_error **error) {
            return ::dsh_session_append_record(get(), name.data(), name.size(), data.data(), data.size(), &seq, error);
        });
        return seq;
    }

    Surface surface() const
    {
        Surface surface;
        surface.nodes = detail::seqs([&](::dsh_seqs *nodes, ::dsh_error **error) {
            return ::dsh_session_surface(get(), nodes, &surface.replace_generation, &surface.content_generation, error);
        });
        return surface;
    }

    /* The messages that a model sees, in order. */
    Messages messages() const
    {
        return Messages(detail::open<Messages::Owner>(
            [&](::dsh_messages **out, ::dsh_error **error) { return ::dsh_session_messages(get(), out, error); }));
    }

    /* The message that one event makes now. */
    std::optional<std::string> message_of(std::uint64_t seq) const
    {
        return detail::optional_text(
            [&](::dsh_buffer *out, ::dsh_error **error) { return ::dsh_session_message_of(get(), seq, out, error); });
    }

    /* Every message event that was appended, replaced or not. */
    Events transcript() const
    {
        return Events(detail::open<Events::Owner>(
            [&](::dsh_events **out, ::dsh_error **error) { return ::dsh_session_transcript(get(), out, error); }));
    }

    /* What would end an open turn. */
    Events closers(::dsh_cause cause = DSH_CAUSE_INTERRUPTED) const
    {
        return Events(detail::open<Events::Owner>(
            [&](::dsh_events **out, ::dsh_error **error) { return ::dsh_session_closers(get(), cause, out, error); }));
    }

    std::optional<KeptEvent> event_at(std::uint64_t seq) const
    {
        return detail::kept([&](::dsh_event *out, ::dsh_error **error) { return ::dsh_session_event_at(get(), seq, out, error); });
    }

    /* The member of a batch that the listeners are being told of. */
    std::optional<KeptEvent> current_batch_publication() const
    {
        return detail::kept(
            [&](::dsh_event *out, ::dsh_error **error) { return ::dsh_session_current_batch_publication(get(), out, error); });
    }

    /* JSON objects; absent before the first. */
    std::optional<std::string> request_header() const { return optional_text(::dsh_session_request_header); }
    std::optional<std::string> request_context() const { return optional_text(::dsh_session_request_context); }
    std::optional<std::string> title() const { return optional_text(::dsh_session_title); }
    std::string tool_history() const { return text(::dsh_session_tool_history); }

    std::uint64_t first_live_seq() const { return number(::dsh_session_first_live_seq); }
    std::uint64_t first_lifecycle_seq() const { return number(::dsh_session_first_lifecycle_seq); }
    bool is_own_seq(std::uint64_t seq) const noexcept { return ::dsh_session_is_own_seq(get(), seq); }

    ::dsh_write_state write_state() const
    {
        std::int32_t state = 0;
        detail::check([&](::dsh_error **error) { return ::dsh_session_write_state(get(), &state, error); });
        return static_cast<::dsh_write_state>(state);
    }

    /* On return every accepted event is on the disk. */
    void flush(const CancelToken *cancel = nullptr)
    {
        ::dsh_cancel *token = cancel == nullptr ? nullptr : cancel->get();
        detail::check([&](::dsh_error **error) { return ::dsh_session_flush(get(), token, error); });
    }

    std::uint64_t next_seq() const
    {
        std::uint64_t seq = 0;
        detail::check([&](::dsh_error **error) { return ::dsh_session_next_seq(get(), &seq, error); });
        return seq;
    }

    std::uint64_t inherited_event_count() const
    {
        std::uint64_t count = 0;
        detail::check([&](::dsh_error **error) { return ::dsh_session_inherited_event_count(get(), &count, error); });
        return count;
    }

    Pending pending() const
    {
        ::dsh_pending pending = DSH_PENDING_INIT;
        detail::check([&](::dsh_error **error) { return ::dsh_session_pending(get(), &pending, error); });
        Pending result;
        result.events = pending.events;
        result.bytes = pending.bytes;
        if (pending.error != nullptr) {
            result.error = Error(detail::ErrorHandle(pending.error));
        }
        return result;
    }

    Events events(std::uint64_t from = 0, std::uint64_t count = DSH_ALL) const
    {
        return Events(detail::open<Events::Owner>([&](::dsh_events **out, ::dsh_error **error) {
            return ::dsh_session_events(get(), from, count, out, error);
        }));
    }

    Events newest(std::uint64_t count) const
    {
        return Events(detail::open<Events::Owner>(
            [&](::dsh_events **out, ::dsh_error **error) { return ::dsh_session_events_newest(get(), count, out, error); }));
    }

    /* Writes what waits and gives up ownership. */
    void close()
    {
        detail::check([&](::dsh_error **error) { return ::dsh_session_close(get(), error); });
    }

    ::dsh_session *get() const noexcept { return handle_.get(); }

private:
    template <typename Call>
    std::string text(Call call) const
    {
        return detail::buffer([&](::dsh_buffer *out, ::dsh_error **error) { return call(get(), out, error); });
    }

    template <typename Call>
    std::optional<std::string> optional_text(Call call) const
    {
        return detail::optional_text([&](::dsh_buffer *out, ::dsh_error **error) { return call(get(), out, error); });
    }

    template <typename Call>
    std::uint64_t number(Call call) const
    {
        std::uint64_t number = 0;
        detail::check([&](::dsh_error **error) { return call(get(), &number, error); });
        return number;
    }

    Owner handle_;
};

/* A registered function. It is called as long as this lives, and once more if that ends during its call. */
class [[nodiscard]] Subscription {
public:
    using Owner = detail::Handle<::dsh_subscription, ::dsh_subscription_free>;

    explicit Subscription(Owner handle) : handle_(std::move(handle)) {}

    /* Takes the function away, from the next append on. */
    void cancel()
    {
        detail::check([&](::dsh_error **error) { return ::dsh_subscription_cancel(handle_.get(), error); });
    }

private:
    Owner handle_;
};

/* What a projection sees: everything as of just before its event. Used until the projection returns. */
class ProjectionContext {
public:
    explicit ProjectionContext(const ::dsh_projection *context) noexcept : context_(context) {}

    std::vector<std::uint64_t> nodes() const
    {
        return detail::seqs([&](::dsh_seqs *out, ::dsh_error **error) { return ::dsh_projection_nodes(context_, out, error); });
    }
    bool is_on_surface(std::uint64_t seq) const noexcept { return ::dsh_projection_is_on_surface(context_, seq); }
    std::uint64_t base_seq() const
    {
        std::uint64_t seq = 0;
        detail::check([&](::dsh_error **error) { return ::dsh_projection_base_seq(context_, &seq, error); });
        return seq;
    }
    std::optional<KeptEvent> event(std::uint64_t seq) const
    {
        return detail::kept(
            [&](::dsh_event *out, ::dsh_error **error) { return ::dsh_projection_event(context_, seq, out, error); });
    }
    /* The message of an event as earlier projections left it. */
    std::optional<std::string> message(std::uint64_t seq) const
    {
        return detail::optional_text(
            [&](::dsh_buffer *out, ::dsh_error **error) { return ::dsh_projection_message(context_, seq, out, error); });
    }
    /* The messages that projections changed so far. */
    Messages projected() const
    {
        return Messages(detail::open<Messages::Owner>(
            [&](::dsh_messages **out, ::dsh_error **error) { return ::dsh_projection_projected(context_, out, error); }));
    }

private:
    const ::dsh_projection *context_;
};

/* A changed message: the event that makes it, and the whole new message under its old id. */
struct ProjectedMessage {
    std::uint64_t seq = 0;
    std::string message;
};

/* Hears of an event, or judges one; throws to fail or to refuse. Both are lent. The session may be asked anything and is not to be kept. */
using EventListener = std::function<void(Session &, const EventView &)>;
/* Hears of a session; throws to fail or to refuse. */
using SessionListener = std::function<void(Session &)>;
/* Decides what an event does to the messages before it; throws to refuse it. */
using Projection = std::function<std::vector<ProjectedMessage>(const EventView &, const ProjectionContext &)>;

namespace detail {

inline std::int32_t hear_event(::dsh_session *session, const ::dsh_event *event, void *user, ::dsh_error **error) noexcept
{
    return contained(DSH_E_EVENT_REFUSED, error, [&] {
        /* Freeing a lent session does nothing. */
        Session lent{Session::Owner(session)};
        (*static_cast<EventListener *>(user))(lent, EventView(*event));
    });
}

inline std::int32_t hear_session(::dsh_session *session, void *user, ::dsh_error **error) noexcept
{
    return contained(DSH_E_SESSION_REFUSED, error, [&] {
        Session lent{Session::Owner(session)};
        (*static_cast<SessionListener *>(user))(lent);
    });
}

inline std::int32_t project(const ::dsh_event *event, const ::dsh_projection *context, void *user, ::dsh_buffer *messages,
                            ::dsh_error **error) noexcept
{
    return contained(DSH_E_EVENT_REFUSED, error, [&] {
        std::string text = "[";
        for (const ProjectedMessage &changed : (*static_cast<Projection *>(user))(EventView(*event), ProjectionContext(context))) {
            text += text.size() > 1 ? "," : "";
            text += "{\"seq\":" + std::to_string(changed.seq) + ",\"message\":" + changed.message + "}";
        }
        text += "]";
        check([&](::dsh_error **failure) { return ::dsh_buffer_new(text.data(), text.size(), messages, failure); });
    });
}

/* Registers a function of the host, which the library owns from then on. */
template <typename Function, typename Call>
Subscription subscribe(Function function, Call &&call)
{
    auto kept = std::make_unique<Function>(std::move(function));
    Subscription subscription(open<Subscription::Owner>([&](::dsh_subscription **out, ::dsh_error **error) {
        return call(kept.get(), [](void *user) { delete static_cast<Function *>(user); }, out, error);
    }));
    kept.release();
    return subscription;
}

} // namespace detail

/* What is about to be uploaded: a session, and what the request is for, absent for an ordinary one of the conversation. Lent. */
struct Upload {
    std::string_view session_id;
    std::optional<std::string_view> purpose;
};

/* Whether a session stays out of an upload, without side effects; throws to fail. */
using UploadPredicate = std::function<bool(const Upload &)>;

/* Whether a session's log may be part of an upload, and why a predicate failed, if one did. */
struct UploadVerdict {
    ::dsh_upload_verdict verdict = DSH_UPLOAD_UNMATCHED;
    std::optional<Error> failure;
};

namespace detail {

inline std::int32_t excludes(const ::dsh_upload *upload, void *user, ::dsh_error **error) noexcept
{
    bool is_excluded = false;
    std::int32_t failed = contained(DSH_E_SESSION_REFUSED, error, [&] {
        Upload lent{view(upload->session_id), std::nullopt};
        if (upload->purpose.ptr != nullptr) {
            lent.purpose = view(upload->purpose);
        }
        is_excluded = (*static_cast<UploadPredicate *>(user))(lent);
    });
    return failed != 0 ? failed : is_excluded ? DSH_UPLOAD_EXCLUDED : DSH_UPLOAD_UNMATCHED;
}

} // namespace detail

/* A registry of predicates, each of which may keep a session out of an upload. */
class UploadExclusions {
public:
    UploadExclusions() : handle_(detail::open<Owner>(::dsh_upload_exclusions_new)) {}

    /* Adds a predicate, asked as long as what this returns lives. */
    Subscription add(UploadPredicate predicate)
    {
        return detail::subscribe(std::move(predicate), [&](void *user, ::dsh_destructor destroy, ::dsh_subscription **out,
                                                           ::dsh_error **error) {
            return ::dsh_upload_exclusions_register(handle_.get(), detail::excludes, user, destroy, out, error);
        });
    }

    /* Asks the predicates in order, up to the first that matches or fails. */
    UploadVerdict judge(std::string_view session_id, std::optional<std::string_view> purpose = std::nullopt) const
    {
        std::int32_t verdict = DSH_UPLOAD_UNMATCHED;
        ::dsh_error *failure = nullptr;
        const char *purpose_data = !purpose ? nullptr : purpose->data() == nullptr ? "" : purpose->data();
        detail::check([&](::dsh_error **error) {
            return ::dsh_upload_exclusions_judge(handle_.get(), session_id.data(), session_id.size(), purpose_data,
                                                 purpose ? purpose->size() : 0, &verdict, &failure, error);
        });
        UploadVerdict judged{static_cast<::dsh_upload_verdict>(verdict), std::nullopt};
        if (failure != nullptr) {
            judged.failure.emplace(detail::ErrorHandle(failure));
        }
        return judged;
    }

private:
    using Owner = detail::Handle<::dsh_upload_exclusions, ::dsh_upload_exclusions_free>;
    Owner handle_;
};

/* How far a session was uploaded, folded from the events of its log. */
class DeliveryFold {
public:
    explicit DeliveryFold(std::string_view session_id)
        : handle_(detail::open<Owner>([&](::dsh_delivery_fold **out, ::dsh_error **error) {
              return ::dsh_delivery_fold_new(session_id.data(), session_id.size(), out, error);
          }))
    {
    }
    void see(const EventView &event)
    {
        detail::check([&](::dsh_error **error) { return ::dsh_delivery_fold_see(handle_.get(), &event.get(), error); });
    }
    /* The last event that was uploaded; none before the first upload. */
    std::optional<std::uint64_t> watermark() const noexcept { return detail::count(::dsh_delivery_fold_watermark(handle_.get())); }

private:
    using Owner = detail::Handle<::dsh_delivery_fold, ::dsh_delivery_fold_free>;
    Owner handle_;
};

/* An open channel onto a stored log. */
class Log {
public:
    using Owner = detail::Handle<::dsh_log, ::dsh_log_free>;

    explicit Log(Owner handle) : handle_(std::move(handle)) {}

    std::string_view id() const noexcept { return detail::view(::dsh_log_id(get())); }
    std::string header() const
    {
        return detail::buffer([&](::dsh_buffer *out, ::dsh_error **error) { return ::dsh_log_header(get(), out, error); });
    }
    std::string notices() const
    {
        return detail::buffer([&](::dsh_buffer *out, ::dsh_error **error) { return ::dsh_log_notices(get(), out, error); });
    }

    /* The events of a range. The walk keeps alive what it needs, so the log may go before it. */
    Events events(std::uint64_t from = 0, std::uint64_t count = DSH_ALL, const CancelToken *cancel = nullptr) const
    {
        return Events(detail::open<Events::Owner>([&](::dsh_events **out, ::dsh_error **error) {
            return ::dsh_log_events(get(), from, count, token(cancel), out, error);
        }));
    }

    Events newest(std::uint64_t count, const CancelToken *cancel = nullptr) const
    {
        return Events(detail::open<Events::Owner>([&](::dsh_events **out, ::dsh_error **error) {
            return ::dsh_log_events_newest(get(), count, token(cancel), out, error);
        }));
    }

    std::uint64_t event_count(const CancelToken *cancel = nullptr) const
    {
        std::uint64_t count = 0;
        detail::check([&](::dsh_error **error) { return ::dsh_log_event_count(get(), token(cancel), &count, error); });
        return count;
    }

    std::uint64_t inherited_event_count(const CancelToken *cancel = nullptr) const
    {
        std::uint64_t count = 0;
        detail::check(
            [&](::dsh_error **error) { return ::dsh_log_inherited_event_count(get(), token(cancel), &count, error); });
        return count;
    }

    /* Reads everything; what the log is like, as a JSON object. */
    std::string check(const CancelToken *cancel = nullptr) const
    {
        return detail::buffer(
            [&](::dsh_buffer *out, ::dsh_error **error) { return ::dsh_log_check(get(), token(cancel), out, error); });
    }

    /* Adds whole rows as one batch, on the disk on return; how many there were. */
    std::uint64_t append_rows(std::string_view rows, const CancelToken *cancel = nullptr)
    {
        std::uint64_t count = 0;
        detail::check([&](::dsh_error **error) {
            return ::dsh_log_append_rows(get(), rows.data(), rows.size(), token(cancel), &count, error);
        });
        return count;
    }

    void flush(const CancelToken *cancel = nullptr)
    {
        detail::check([&](::dsh_error **error) { return ::dsh_log_flush(get(), token(cancel), error); });
    }

    void close()
    {
        detail::check([&](::dsh_error **error) { return ::dsh_log_close(get(), error); });
    }

    ::dsh_log *get() const noexcept { return handle_.get(); }

private:
    static ::dsh_cancel *token(const CancelToken *cancel) noexcept { return cancel == nullptr ? nullptr : cancel->get(); }

    Owner handle_;
};

/* Settings of a store; what is absent or 0 has its default. */
struct StoreSettings {
    ::dsh_encoding encoding = DSH_ENCODING_OF_ROOT;
    std::uint32_t depth_max = 0;
    std::uint64_t row_bytes_max = 0;
    std::uint64_t header_bytes_max = 0;
    std::uint32_t threads = 0;
    /* The event types that this program registers: a JSON array of names, or objects with `type` and `changesMessages`. */
    std::string event_types;
    /* Whether appends are refused that would make the log unreadable. */
    bool checks_stored_rules = true;
};

/* A root of sessions, opened. */
class Store {
public:
    using Owner = detail::Handle<::dsh_store, ::dsh_store_free>;
    /* Takes a level (dsh_log_level) and a line; must not throw. */
    using LogCallback = std::function<void(int, std::string_view)>;

    explicit Store(Owner handle) : handle_(std::move(handle)) {}

    /* Opens a root; throws Error(DSH_E_INTERNAL) if the library does not fit the header. */
    static Store open(std::string_view root, const StoreSettings &settings = {})
    {
        return open_at(root.data() == nullptr ? "" : root.data(), root.size(), settings);
    }

    /* A store that writes no file. */
    static Store in_memory(const StoreSettings &settings = {}) { return open_at(nullptr, 0, settings); }

    std::string_view root() const noexcept { return detail::view(::dsh_store_root(get())); }

    /* A new session; the header is a JSON object, empty for defaults. */
    Session create(std::string_view header = {})
    {
        return Session(detail::open<Session::Owner>([&](::dsh_session **out, ::dsh_error **error) {
            return ::dsh_session_create(get(), header.data(), header.size(), out, error);
        }));
    }

    Session open_session(std::string_view id, const CancelToken *cancel = nullptr)
    {
        return Session(detail::open<Session::Owner>([&](::dsh_session **out, ::dsh_error **error) {
            return ::dsh_session_open(get(), id.data(), id.size(), token(cancel), out, error);
        }));
    }

    /* Takes a session up again: an interrupted turn is closed, the marker of a new life is added. */
    Session resume(std::string_view id, const CancelToken *cancel = nullptr)
    {
        return Session(detail::open<Session::Owner>([&](::dsh_session **out, ::dsh_error **error) {
            return ::dsh_store_resume(get(), id.data(), id.size(), token(cancel), out, error);
        }));
    }

    /* A new session that begins with the events of another, up to `at`, or to the end of its last finished turn. */
    Session fork(std::string_view source_id, std::optional<std::uint64_t> at = std::nullopt, std::string_view header = {},
                 const CancelToken *cancel = nullptr)
    {
        return Session(detail::open<Session::Owner>([&](::dsh_session **out, ::dsh_error **error) {
            return ::dsh_store_fork(get(), source_id.data(), source_id.size(), at.value_or(DSH_COMPLETED_PREFIX), header.data(),
                                    header.size(), token(cancel), out, error);
        }));
    }

    /* A new session that begins with whole rows. */
    Session create_seeded(std::string_view header, std::string_view rows,
                          std::optional<std::uint64_t> inherited_event_count = std::nullopt)
    {
        std::int64_t inherited = inherited_event_count ? static_cast<std::int64_t>(*inherited_event_count) : -1;
        return Session(detail::open<Session::Owner>([&](::dsh_session **out, ::dsh_error **error) {
            return ::dsh_store_create_seeded(get(), header.data(), header.size(), rows.data(), rows.size(), inherited, out, error);
        }));
    }

    /* Another handle of a live session; throws Error(DSH_E_SESSION_NOT_FOUND) where none is live under the id. */
    Session get_session(std::string_view id)
    {
        return Session(detail::open<Session::Owner>([&](::dsh_session **out, ::dsh_error **error) {
            return ::dsh_store_get(get(), id.data(), id.size(), out, error);
        }));
    }

    /* The ids of the live sessions: a JSON array. */
    std::string live_ids() const
    {
        return detail::buffer([&](::dsh_buffer *out, ::dsh_error **error) { return ::dsh_store_live_ids(get(), out, error); });
    }

    /* Each event that a live session commits. What the listener throws goes to the log callback. No listener may own the store. */
    Subscription on_event(EventListener listener) { return listen(std::move(listener), ::dsh_store_on_event, detail::hear_event); }

    /* Each event before it is accepted; what the validator throws refuses it. */
    Subscription add_validator(EventListener validator)
    {
        return listen(std::move(validator), ::dsh_store_add_validator, detail::hear_event);
    }

    /* Each session before it may be written; what the listener throws is what the call that made it throws. */
    Subscription on_created(SessionListener listener)
    {
        return listen(std::move(listener), ::dsh_store_on_created, detail::hear_session);
    }

    /* Each session that has left the store. */
    Subscription on_disposed(SessionListener listener)
    {
        return listen(std::move(listener), ::dsh_store_on_disposed, detail::hear_session);
    }

    /* Each session that was flushed; what the listener throws fails the flush. */
    Subscription on_flush(SessionListener listener)
    {
        return listen(std::move(listener), ::dsh_store_on_flush, detail::hear_session);
    }

    /* Registers a projection for an event type. */
    Subscription register_projection(std::string_view event_type, Projection projection)
    {
        return detail::subscribe(std::move(projection), [&](void *user, ::dsh_destructor destroy, ::dsh_subscription **out,
                                                            ::dsh_error **error) {
            return ::dsh_store_register_projection(get(), event_type.data(), event_type.size(), detail::project, user, destroy, out,
                                                   error);
        });
    }

    Log open_log(std::string_view id, ::dsh_access access = DSH_READ, const CancelToken *cancel = nullptr)
    {
        return Log(detail::open<Log::Owner>([&](::dsh_log **out, ::dsh_error **error) {
            return ::dsh_log_open(get(), id.data(), id.size(), access, token(cancel), out, error);
        }));
    }

    /* A new log for whole rows; the header names `id` and `createdAt`. */
    Log create_log(std::string_view header, std::optional<std::uint64_t> inherited_event_count = std::nullopt)
    {
        std::int64_t inherited = inherited_event_count ? static_cast<std::int64_t>(*inherited_event_count) : -1;
        return Log(detail::open<Log::Owner>([&](::dsh_log **out, ::dsh_error **error) {
            return ::dsh_log_create(get(), header.data(), header.size(), inherited, nullptr, out, error);
        }));
    }

    std::string stat(std::string_view id, const CancelToken *cancel = nullptr) const
    {
        return detail::buffer([&](::dsh_buffer *out, ::dsh_error **error) {
            return ::dsh_store_stat(get(), id.data(), id.size(), token(cancel), out, error);
        });
    }

    Lines list(bool is_strict = false, const CancelToken *cancel = nullptr) const
    {
        return Lines(detail::open<Lines::Owner>([&](::dsh_lines **out, ::dsh_error **error) {
            return ::dsh_store_list(get(), is_strict ? DSH_LIST_STRICT : 0U, token(cancel), out, error);
        }));
    }

    /* Every session, or one, judged: a line of JSON each. */
    Lines verify(std::optional<std::string_view> id = std::nullopt, const CancelToken *cancel = nullptr) const
    {
        return verify(id, nullptr, cancel);
    }

    /* The same, with `progress` told after each step of the walk. What it throws comes out of that step, and ends the walk. */
    Lines verify(std::optional<std::string_view> id, ProgressCallback progress, const CancelToken *cancel = nullptr) const
    {
        std::string_view given = id.value_or(std::string_view());
        std::unique_ptr<detail::Reporter> reporter;
        if (progress) {
            reporter.reset(new detail::Reporter{std::move(progress), nullptr});
        }
        auto handle = detail::open<Lines::Owner>([&](::dsh_lines **out, ::dsh_error **error) {
            return ::dsh_query_verify(get(), id ? non_null(given) : nullptr, given.size(),
                                      reporter == nullptr ? nullptr : &detail::Reporter::tell, reporter.get(), nullptr,
                                      token(cancel), out, error);
        });
        return Lines(std::move(handle), std::move(reporter));
    }

    Events salvage(std::string_view id, const CancelToken *cancel = nullptr) const
    {
        return Events(detail::open<Events::Owner>([&](::dsh_events **out, ::dsh_error **error) {
            return ::dsh_query_salvage(get(), id.data(), id.size(), token(cancel), out, error);
        }));
    }

    Lines rows(std::string_view id, const CancelToken *cancel = nullptr) const
    {
        return Lines(detail::open<Lines::Owner>([&](::dsh_lines **out, ::dsh_error **error) {
            return ::dsh_query_rows(get(), id.data(), id.size(), token(cancel), out, error);
        }));
    }

    std::string stats(std::optional<std::string_view> id = std::nullopt, const CancelToken *cancel = nullptr) const
    {
        std::string_view given = id.value_or(std::string_view());
        return detail::buffer([&](::dsh_buffer *out, ::dsh_error **error) {
            return ::dsh_query_stats(get(), id ? non_null(given) : nullptr, given.size(), token(cancel), out, error);
        });
    }

    /* Takes a session away; the folder it was moved to, if it was. */
    std::string remove(std::string_view id, bool to_trash = false)
    {
        return detail::buffer([&](::dsh_buffer *out, ::dsh_error **error) {
            return ::dsh_store_remove(get(), id.data(), id.size(), to_trash ? DSH_REMOVE_TRASH : 0U, nullptr, out, error);
        });
    }

    /* Where log lines go; an empty function removes it. */
    void set_log_callback(LogCallback callback)
    {
        if (!callback) {
            detail::check([&](::dsh_error **error) {
                return ::dsh_store_set_log_callback(get(), nullptr, nullptr, nullptr, error);
            });
            return;
        }
        auto kept = std::make_unique<LogCallback>(std::move(callback));
        detail::check([&](::dsh_error **error) {
            return ::dsh_store_set_log_callback(
                get(), [](std::int32_t level, ::dsh_str text, void *user) { (*static_cast<LogCallback *>(user))(level, detail::view(text)); },
                kept.get(), [](void *user) { delete static_cast<LogCallback *>(user); }, error);
        });
        kept.release();
    }

    void flush()
    {
        detail::check([&](::dsh_error **error) { return ::dsh_store_flush(get(), error); });
    }

    void close()
    {
        detail::check([&](::dsh_error **error) { return ::dsh_store_close(get(), error); });
    }

    ::dsh_store *get() const noexcept { return handle_.get(); }

private:
    static ::dsh_cancel *token(const CancelToken *cancel) noexcept { return cancel == nullptr ? nullptr : cancel->get(); }
    static const char *non_null(std::string_view text) noexcept { return text.data() == nullptr ? "" : text.data(); }

    template <typename Function, typename Register, typename Callback>
    Subscription listen(Function function, Register add, Callback callback)
    {
        return detail::subscribe(std::move(function), [&](void *user, ::dsh_destructor destroy, ::dsh_subscription **out,
                                                          ::dsh_error **error) {
            return add(get(), callback, user, destroy, out, error);
        });
    }

    static Store open_at(const char *root, std::size_t root_len, const StoreSettings &settings)
    {
        if (!::dsh_check_abi()) {
            throw Error(static_cast<::dsh_status>(DSH_E_INTERNAL));
        }
        ::dsh_store_settings given = DSH_STORE_SETTINGS_INIT;
        given.encoding = settings.encoding;
        given.depth_max = settings.depth_max;
        given.row_bytes_max = settings.row_bytes_max;
        given.header_bytes_max = settings.header_bytes_max;
        given.threads = settings.threads;
        given.flags = settings.checks_stored_rules ? 0U : DSH_STORE_UNCHECKED_RULES;
        given.event_types = settings.event_types.data();
        given.event_types_len = settings.event_types.size();
        return Store(detail::open<Owner>([&](::dsh_store **out, ::dsh_error **error) {
            return ::dsh_store_open(root, root_len, &given, out, error);
        }));
    }

    Owner handle_;
};

/* The surface of whole rows, as a JSON object; with a store, its projections and event types count. */
inline std::string fold_surface(std::string_view rows, std::uint64_t base_seq = 0, const Store *store = nullptr)
{
    const ::dsh_store *given = store == nullptr ? nullptr : store->get();
    return detail::buffer([&](::dsh_buffer *out, ::dsh_error **error) {
        return ::dsh_fold_surface(given, rows.data(), rows.size(), base_seq, out, error);
    });
}

/* One fold over whole rows, as a JSON object; absent where there is nothing to fold. */
inline std::optional<std::string> fold(::dsh_fold_kind kind, std::string_view rows)
{
    return detail::optional_text([&](::dsh_buffer *out, ::dsh_error **error) {
        return ::dsh_fold(kind, rows.data(), rows.size(), out, error);
    });
}

/* The rows that end what the last turn of whole rows leaves open. */
inline std::string closers(std::string_view rows, ::dsh_cause cause = DSH_CAUSE_INTERRUPTED)
{
    return detail::buffer([&](::dsh_buffer *out, ::dsh_error **error) {
        return ::dsh_closers(rows.data(), rows.size(), cause, out, error);
    });
}

/* The seed of a fork, for `Store::create_seeded`. */
struct ForkSeed {
    std::string rows;
    std::uint64_t inherited_event_count = 0;
};

inline ForkSeed fork_seed(std::string_view rows, std::uint64_t boundary)
{
    ForkSeed seed;
    seed.rows = detail::buffer([&](::dsh_buffer *out, ::dsh_error **error) {
        return ::dsh_fork_seed(rows.data(), rows.size(), boundary, out, &seed.inherited_event_count, error);
    });
    return seed;
}

} // namespace dsh

#endif
