#!/usr/bin/env bash
# IGT: memory.list
exec bash "$srcdir/tests/igt/igt.sh" "$srcdir/tests/igt/memory.list"
