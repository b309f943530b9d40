#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# signal_when_hurried.sh SIGNAL CMD...: runs CMD, sends it SIGNAL as soon as rcu_expedited is set,
# and prints CMD's status.
number=$1
shift
"$@" &
until [ "$(cat /sys/kernel/rcu_expedited)" = 1 ]; do
	kill -0 $! || exit 1
done
kill -"$number" $!
wait $!
echo "status $?"
