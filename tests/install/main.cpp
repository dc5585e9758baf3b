// The same in C++.
#include <iostream>

#include <dsh_session.hpp>

int main(int count, char **arguments)
{
    if (count != 2) {
        return 2;
    }
    auto store = dsh::Store::open(arguments[1]);
    auto session = store.create();
    session.append("turn/start", R"({"turn":1})");
    session.flush();
    for (const dsh::EventView &event : session.events()) {
        std::cout << event.type << ": ok\n";
    }
}
