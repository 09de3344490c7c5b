#!/usr/bin/env bash
# IGT: parallel.list
exec bash "$srcdir/tests/igt/igt.sh" "$srcdir/tests/igt/parallel.list"
