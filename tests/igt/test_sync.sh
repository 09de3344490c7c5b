#!/usr/bin/env bash
# IGT: sync.list
exec bash "$srcdir/tests/igt/igt.sh" "$srcdir/tests/igt/sync.list"
