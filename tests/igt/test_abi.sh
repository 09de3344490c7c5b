#!/usr/bin/env bash
# IGT: abi.list
exec bash "$srcdir/tests/igt/igt.sh" "$srcdir/tests/igt/abi.list"
