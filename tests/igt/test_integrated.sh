#!/usr/bin/env bash
# IGT: integrated.list
exec bash "$srcdir/tests/igt/igt.sh" "$srcdir/tests/igt/integrated.list"
