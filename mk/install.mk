# make install PREFIX=/usr/local [DESTDIR=...]: the C library, its headers, its pkg-config file and its CMake package.
# What is installed finds itself, so the folder may be moved as a whole.

PREFIX ?= /usr/local
DESTDIR ?=
CARGO ?= cargo
# Where cargo put the library; given, nothing is built.
DSH_BUILT ?=

DSH_ROOT := $(patsubst %/,%,$(dir $(abspath $(lastword $(MAKEFILE_LIST)))))/..
DSH_VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' $(DSH_ROOT)/Cargo.toml | head -n 1)
DSH_ABI_MAJOR := $(shell sed -n 's/^.define DSH_ABI_MAJOR //p' $(DSH_ROOT)/include/dsh_session.h)
DSH_ABI_MINOR := $(shell sed -n 's/^.define DSH_ABI_MINOR //p' $(DSH_ROOT)/include/dsh_session.h)
DSH_TO := $(DESTDIR)$(abspath $(PREFIX))
DSH_FROM := $(if $(DSH_BUILT),$(DSH_BUILT),$(DSH_ROOT)/target/release)
DSH_FILL := sed -e 's/@VERSION@/$(DSH_VERSION)/g' -e 's/@ABI_MAJOR@/$(DSH_ABI_MAJOR)/g' -e 's/@ABI_MINOR@/$(DSH_ABI_MINOR)/g'

.PHONY: install install-build uninstall

install-build:
	$(if $(DSH_BUILT),,cd $(DSH_ROOT) && $(CARGO) build --release -p dsh-session-ffi)

install: install-build
	install -d $(DSH_TO)/lib/pkgconfig $(DSH_TO)/lib/cmake/dsh-session $(DSH_TO)/include
	install -m 755 $(DSH_FROM)/libdsh_session.so $(DSH_TO)/lib/libdsh_session.so.$(DSH_ABI_MAJOR).$(DSH_ABI_MINOR)
	ln -sf libdsh_session.so.$(DSH_ABI_MAJOR).$(DSH_ABI_MINOR) $(DSH_TO)/lib/libdsh_session.so.$(DSH_ABI_MAJOR)
	ln -sf libdsh_session.so.$(DSH_ABI_MAJOR) $(DSH_TO)/lib/libdsh_session.so
	install -m 644 $(DSH_FROM)/libdsh_session.a $(DSH_TO)/lib/
	install -d $(DSH_TO)/share/doc/dsh-session
	install -m 644 $(DSH_ROOT)/LICENSE $(DSH_ROOT)/THIRD-PARTY-NOTICES.md $(DSH_TO)/share/doc/dsh-session/
	install -m 644 $(DSH_ROOT)/include/dsh_session.h $(DSH_ROOT)/include/dsh_session.hpp $(DSH_TO)/include/
	$(DSH_FILL) $(DSH_ROOT)/mk/dsh-session.pc.in > $(DSH_TO)/lib/pkgconfig/dsh-session.pc
	$(DSH_FILL) $(DSH_ROOT)/mk/dsh-session-config.cmake.in > $(DSH_TO)/lib/cmake/dsh-session/dsh-session-config.cmake
	$(DSH_FILL) $(DSH_ROOT)/mk/dsh-session-config-version.cmake.in > $(DSH_TO)/lib/cmake/dsh-session/dsh-session-config-version.cmake

uninstall:
	rm -f $(DSH_TO)/lib/libdsh_session.so* $(DSH_TO)/lib/libdsh_session.a $(DSH_TO)/lib/pkgconfig/dsh-session.pc
	rm -f $(DSH_TO)/include/dsh_session.h $(DSH_TO)/include/dsh_session.hpp
	rm -rf $(DSH_TO)/lib/cmake/dsh-session $(DSH_TO)/share/doc/dsh-session
