"""./run bench: ze_range beside the other ways, in interleaved rounds (A B C A B C ...), so that a
slow moment of the machine hits all of them; medians of the ratios of each round, their spread, the
table of targets, CSV, JSON, plots. Called by bench.sh, with the environment set."""
# SPDX-License-Identifier: BSD-3-Clause
import argparse
import json
import os
import platform
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
MPIRUN = os.path.join(HERE, '..', 'tests', 'mpirun.sh')
MIB = 1 << 20
HOST = 'sm,self,cma,ze_copy'
LIMIT_S = 180  # of one program; longer means that it hangs
QUICK_S = 175  # --quick begins no round that would end later, less what comes after the rounds
QUICK_REST_S = 25
COLLECTIVES = ('allreduce', 'bcast', 'allgather', 'alltoall')
PARTS = ('bandwidth', 'bidirectional', 'latency', 'range', 'register', 'engines', 'host', 'growth',
         'collectives', 'choice')
CHOICES = {'D D': 'ze-device', 'D H': 'ze-device,host', 'H D': 'host,ze-device'}
CHOICE_SIZES = '8 1024 8192 65536 262144 1048576 4194304 16777216'


def median(values):
    values = sorted(values)
    n = len(values)
    return values[n // 2] if n % 2 else (values[n // 2 - 1] + values[n // 2]) / 2


def name_of(size):
    for unit, letter in ((1 << 30, 'GiB'), (MIB, 'MiB'), (1024, 'KiB')):
        if size >= unit and size % unit == 0:
            return f'{size // unit} {letter}'
    return f'{size} B' if size else ''


class Failed(Exception):
    pass


class Bench:
    """What was measured: raw[what][contestant][size] is a list with a value for each round."""

    def __init__(self, options):
        self.options = options
        self.raw = {}
        self.lines = []
        self.commands = {}
        self.failures = {}
        self.staging = {'UCX_TLS': '^ze_range'}
        self.round = self.rounds_done = 0
        self.began = time.monotonic()

    # ---- parts measured before, in the same folder ----

    def kept(self):
        return os.path.join(self.options.out, 'state.json')

    def keep(self):
        with open(self.kept(), 'w') as out:
            json.dump({'lines': self.lines, 'commands': self.commands, 'failures': self.failures,
                       'staging': self.staging, 'rounds': self.rounds_done}, out)

    def take_up(self):
        try:
            with open(self.kept()) as kept:
                state = json.load(kept)
        except (OSError, ValueError) as error:
            sys.exit(f'bench: --add: {self.kept()}: {error}')
        for line in state['lines']:
            what, who, self.round, size, value = line.rsplit(',', 4)
            self.round = int(self.round)
            self.add(what, who, int(size), float(value))
        self.commands, self.failures = state['commands'], state['failures']
        self.staging, self.rounds_done = state['staging'], state['rounds']

    # ---- running ----

    def progress(self, text):
        if sys.stderr.isatty():
            took = int(time.monotonic() - self.began)
            sys.stderr.write(f'\r\033[Kround {self.round} of {self.options.rounds}: {text} '
                             f'({took} s)' if text else '\r\033[K')
            sys.stderr.flush()

    def run(self, command, extra=None, ranks=0, limit=LIMIT_S, good=(0,)):
        env = dict(os.environ)
        for key, value in (extra or {}).items():
            if value is None:
                env.pop(key, None)
            else:
                env[key] = value
        if ranks:
            command = ['bash', MPIRUN, '-np', str(ranks)] + command
        try:
            done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, timeout=limit,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        except subprocess.TimeoutExpired:
            raise Failed(f'no end after {limit} s')
        except OSError as error:
            raise Failed(str(error))
        if done.returncode not in good:
            tail = done.stderr.decode(errors='replace').strip().splitlines()[-3:]
            raise Failed(f'exit {done.returncode}: ' + ' / '.join(tail))
        return done.stdout.decode(errors='replace')

    def results(self, command, extra=None, ranks=0):
        text = self.run(command + ['--json'], extra, ranks)
        try:
            return json.loads(text[text.index('{'):text.rindex('}') + 1])['results']
        except ValueError as error:
            raise Failed(f'output is not JSON: {error}: {text[:200]}')

    def add(self, what, who, size, value):
        sizes = self.raw.setdefault(what, {}).setdefault(who, {})
        sizes.setdefault(size, {})[self.round] = value
        self.lines.append(f'{what},{who},{self.round},{size},{value:.4f}')

    def measure(self, what, who, command, column, extra=None, ranks=2, key='size'):
        """One program of a round; @column: name, or names with a `what` each."""
        if what.split()[0] not in self.options.parts:
            return
        self.progress(f'{what} {who}')
        shown = ' '.join([f'{k}={v}' for k, v in (extra or {}).items() if v is not None] +
                         ([f'mpirun -np {ranks}'] if ranks else []) + command)
        self.commands.setdefault(f'{what}, {who}', shown)
        try:
            for row in self.results(command, extra, ranks):
                for name, title in (column if isinstance(column, dict) else {column: what}).items():
                    if name in row:
                        self.add(title, who, int(row[key]), row[name])
        except Failed as failure:
            self.failures[f'{what}, {who}'] = str(failure)
            self.progress('')
            print(f'bench: {what}, {who}: {failure}: {shown}', file=sys.stderr)

    # ---- the contestants ----

    def tune_staging(self):
        """UCX's staging at its best: the size of its fragments and the engines' threads."""
        if 'bandwidth' not in self.options.parts:
            return
        sizes, best, best_value = '1048576:16777216', None, 0
        fragments = ('', '512K', '4M') if self.options.quick else ('', '256K', '512K', '1M', '4M')
        threads = ('1', '2')
        for fragment in fragments:
            for count in threads:
                extra = {'UCX_TLS': '^ze_range', 'ZERANGE_SOFT_THREADS': count}
                if fragment:
                    extra['UCX_RNDV_FRAG_SIZE'] = f'host:{fragment},ze-device:{fragment}'
                self.progress(f'tuning staging: {fragment or "default"} fragments, {count} threads')
                try:
                    rows = self.results(self.bw('zr_bw', sizes, 64, '128M') + ['D', 'D'], extra, 2)
                except Failed as failure:
                    self.failures[f'staging with fragments of {fragment}'] = str(failure)
                    continue
                value = 1
                for row in rows:
                    value *= row['bandwidth_mb_s']
                if value > best_value:
                    best, best_value = extra, value
        self.staging = best or self.staging

    def bw(self, program, sizes, objects, volume):
        return [program, '-m', sizes, '--objects', str(objects), '--fit', '--volume', volume]

    def one_round(self):
        o = self.options
        volume, few = ('384M', '128M') if o.quick else ('2G', '512M')
        mine, other = {}, {'UCX_TLS': HOST}
        bandwidth, latency = 'bandwidth_mb_s', 'latency_us'
        for first, last, v in ((262144, 2 * MIB, few), (4 * MIB, 64 * MIB, volume)):
            sizes = f'{first}:{last}'
            self.measure('bandwidth', 'ze_range',
                         self.bw('zr_bw', sizes, o.objects, v) + ['D', 'D'], bandwidth, mine)
            self.measure('bandwidth', 'one object', self.bw('zr_bw', sizes, 1, v) + ['D', 'D'],
                         bandwidth, mine)
            self.measure('bandwidth', 'CMA', self.bw('zr_bw', sizes, 1, v) + ['H', 'H'], bandwidth,
                         other)
            self.measure('bandwidth', 'staging',
                         self.bw('zr_bw', sizes, o.objects, few) + ['D', 'D'], bandwidth,
                         self.staging)
            limit = ['zr_limit', '-m', sizes, '--objects', str(o.objects), '-W', '8', '-i',
                     '16' if first < MIB else '2']
            self.measure('bandwidth', 'memory limit', limit, 'best_mb_s', ranks=0)
        sizes = f'{MIB}:{64 * MIB}'
        self.measure('bidirectional', 'ze_range',
                     self.bw('zr_bibw', sizes, o.objects, volume) + ['D', 'D'], bandwidth, mine)
        self.measure('bidirectional', 'memory limit',
                     ['zr_limit', '-t', '2', '-m', sizes, '--objects', str(o.objects), '-W', '8',
                      '-i', '2'], 'best_mb_s', ranks=0)
        lat = ['zr_latency', '-m', '8:65536', '-i', '1000' if o.quick else '5000', '-x', '100',
               '--objects', '1']
        self.measure('latency', 'ze_range', lat + ['D', 'D'], latency, mine)
        self.measure('latency', 'posix', lat + ['H', 'H'], latency, {'UCX_TLS': 'posix,self,ze_copy'})
        self.measure('latency', 'CMA', lat + ['H', 'H'], latency, other)
        if not o.quick:
            self.one_round_collectives()
        self.one_round_alone()

    def one_round_collectives(self):
        """Open MPI's components on the device's side; stock Open MPI on the host's."""
        ours = os.path.join(os.environ.get('builddir', '.'), '.libs')
        for name in COLLECTIVES:
            command = [f'zr_{name}', '-m', f'{MIB}:{4 * MIB}', '-i', '15', '-x', '3', '--objects',
                       str(self.options.objects)]
            self.measure(f'collectives {name}', 'ze_range', command + ['D', 'D'], 'avg_us',
                         {'ZR_TEST_COMPONENTS': ours})
            self.measure(f'collectives {name}', 'CMA', command + ['H', 'H'], 'avg_us',
                         {'ZR_TEST_COMPONENTS': None, 'UCX_TLS': HOST})

    def one_round_alone(self):
        """What needs no second rank."""
        o = self.options
        opened = {'export_us': 'export', 'again_ns': 'export again', 'open_us': 'open',
                  'touch_us': 'touch', 'close_us': 'close', 'memfd_open_us': 'memfd open',
                  'memfd_touch_us': 'memfd touch', 'open_ratio': 'open / memfd',
                  'open_touch_ratio': 'open and touch / memfd'}
        objects = '1024' if o.quick else '16384'
        self.measure('range', 'ze_range',
                     ['zr_range', 'open', '--objects', f'{"64" if o.quick else "1"}:{objects}',
                      '-r', '3'], opened, ranks=0, key='objects')
        self.measure('range', 'ze_range', ['zr_range', 'grow', '--objects', '10000', '-r', '1'],
                     {'ratio': 'grow'}, ranks=0, key='objects')
        hits = {'hit_ns': 'hit', 'ucs_rcache_ns': 'ucs_rcache', 'pgtable_ns': 'ucs_pgtable',
                'hit_to_ucs_rcache': 'hit / ucs_rcache', 'hit_to_pgtable': 'hit / ucs_pgtable',
                'random_to_pgtable': 'random / ucs_pgtable', 'miss_ns': 'miss',
                'threads_different': 'two threads, different', 'threads_same': 'two threads, same'}
        if self.round == 1 or not o.quick:
            self.measure('register', 'ze_range',
                         ['zr_range', 'register', '-r', '3' if o.quick else '5'], hits, ranks=0,
                         key='ranges')
            self.measure('engines', 'ze_range', ['zr_engines', '-e', '1:9', '-r', '3'],
                         {'of_linear': 'engines', 'bandwidth_mb_s': 'engines MB/s'}, ranks=0,
                         key='engines')

    def host_only(self):
        """Latency of an application without device memory: with the plugin, without, and without
        again as a control. More rounds than the rest: the difference looked for is small."""
        without = {'UCX_PLUGIN_PATH': None, 'LD_PRELOAD': None}
        command = ['zr_latency', '-m', '8:8', '-i', '20000', '-x', '1000', 'H', 'H']
        for self.round in range(1, (5 if self.options.quick else 11) + 1):
            self.measure('host latency', 'installed', command, 'latency_us', {})
            self.measure('host latency', 'not installed', command, 'latency_us', without)
            self.measure('host latency', 'control', command, 'latency_us', without)

    def growth(self):
        """Messages of several pairs together. More ranks than CPUs yield while they wait."""
        idle = {'OMPI_MCA_mpi_yield_when_idle': '1', 'PRTE_MCA_mpi_yield_when_idle': '1'}
        for self.round in range(1, (1 if self.options.quick else 3) + 1):
            for ranks in (2, 4, 8):
                self.measure('growth', f'{ranks} ranks',
                             ['zr_mbw_mr', '-m', '65536:1048576', '--objects', '8', '--fit',
                              '--volume', '256M', 'D', 'D'],
                             {'messages_s': 'growth'}, idle, ranks)

    def choice(self):
        """UCP's choice beside each way that it could have taken: choice.sh."""
        self.round = 1
        for kinds, memory in CHOICES.items():
            if self.options.quick or 'choice' not in self.options.parts:
                continue
            what, command = f'choice {kinds}', ['bash', os.path.join(HERE, 'choice.sh'), '--rounds',
                                                '3', '--memory', memory, '--sizes', CHOICE_SIZES,
                                                'tag_lat']
            self.commands[what] = ' '.join(['choice.sh'] + command[2:6])
            self.progress(what)
            try:
                text = self.run(command, limit=3 * LIMIT_S, good=(0, 1))  # 1: another is faster
                lines = [line.split() for line in text.splitlines() if not line.startswith('#')]
                names = lines[0][1:lines[0].index('chosen')]
                for line in lines[1:]:
                    if not line[0].isdigit():
                        continue
                    for name, value in zip(names, line[1:]):
                        self.add(f'{what}, us', name, int(line[0]), float(value))
                    self.add(what, 'ze_range', int(line[0]), float(line[len(names) + 2]))
            except (Failed, IndexError, ValueError) as failure:
                self.failures[what] = str(failure)
                self.progress('')
                print(f'bench: {what}: {failure}', file=sys.stderr)

    def kernel_calls(self):
        self.round = 1
        command = ['test_kernel_calls']
        for folder in ('tests/unit', '.'):
            path = os.path.join(os.environ.get('builddir', '.'), folder, command[0])
            if os.path.exists(path):
                command = [path]
        try:
            text = self.run(command)
            words = text.split()
            self.add('kernel calls', 'copy', 0, float(words[5].rstrip(',')))
            self.add('kernel calls', 'poll', 0, float(words[-1]))
        except (Failed, IndexError, ValueError) as failure:
            self.failures['kernel calls'] = str(failure)
        self.commands['kernel calls'] = 'tests/unit/test_kernel_calls'

    # ---- the table ----

    def ratios(self, what, mine, other, size, what_other=None):
        a = self.raw.get(what, {}).get(mine, {}).get(size, {})
        b = self.raw.get(what_other or what, {}).get(other, {}).get(size, {})
        return [(a[r] / b[r], a[r], b[r]) for r in sorted(set(a) & set(b)) if b[r] > 0]

    def sizes(self, what, who, least=0, most=1 << 62):
        return [s for s in sorted(self.raw.get(what, {}).get(who, {})) if least <= s <= most]

    def rows(self):
        """{what, size, against, ratio, low, high, target, met, mine, other, unit} of each row."""
        rows = []

        def put(what, against, size, values, sense, target, unit, of='size'):
            row = {'what': what, 'against': against, 'size': size, 'of': of,
                   'target': f'{sense} {target}', 'ratio': None, 'met': False, 'unit': unit}
            if values:
                ratio = median([v[0] for v in values])
                row.update(ratio=round(ratio, 4), low=round(min(v[0] for v in values), 4),
                           high=round(max(v[0] for v in values), 4),
                           mine=round(median([v[1] for v in values]), 4),
                           other=round(median([v[2] for v in values]), 4),
                           met=ratio >= target if sense == '>=' else ratio <= target)
            rows.append(row)

        def compare(title, against, what, mine, other, span, sense, target, unit):
            for size in self.sizes(what, mine, *span) or [span[0]]:
                put(title, against, size, self.ratios(what, mine, other, size), sense, target, unit)

        def direct(title, against, what, sense, target, unit, of, span=(0, 1 << 62)):
            for size in self.sizes(what, 'ze_range', *span) or [0]:
                values = self.raw.get(what, {}).get('ze_range', {}).get(size, {})
                put(title, against, size, [(v, v, target) for v in values.values()], sense, target,
                    unit, of)

        o = self.options
        many = f'bandwidth D D, {o.objects} objects'
        compare(many, 'UCX staging, tuned', 'bandwidth', 'ze_range', 'staging', (MIB, 64 * MIB),
                '>=', 2.0, 'MB/s')
        compare(many, 'UCX CMA, H H', 'bandwidth', 'ze_range', 'CMA', (262144, MIB), '>=', 1.5,
                'MB/s')
        compare(many, 'UCX CMA, H H', 'bandwidth', 'ze_range', 'CMA', (4 * MIB, 64 * MIB), '>=',
                1.4, 'MB/s')
        compare(many, 'one thread, faster of memcpy and streaming stores', 'bandwidth', 'ze_range',
                'memory limit', (MIB, 64 * MIB), '>=', 0.92, 'MB/s')
        compare('bidirectional D D', 'two threads, the same', 'bidirectional', 'ze_range',
                'memory limit', (4 * MIB, 64 * MIB), '>=', 0.85, 'MB/s')
        compare('latency D D', 'UCX posix, H H', 'latency', 'ze_range', 'posix', (8, 8), '<=', 4.0,
                'us')
        rows.append({'what': 'latency D D, CPU path for CPU-visible objects',
                     'against': 'UCX posix, H H', 'size': 8, 'of': 'size', 'target': '<= 2.0',
                     'ratio': None, 'met': None, 'unit': 'us',
                     'note': 'not used: device memory has no CPU mapping'})
        compare('latency D D', 'UCX CMA, H H', 'latency', 'ze_range', 'CMA', (65536, 65536), '<=',
                1.0, 'us')
        for name in COLLECTIVES if not o.quick else ():
            compare(f'{name} D D, 2 ranks', 'the same H H, CMA', f'collectives {name}', 'ze_range',
                    'CMA', (MIB, 4 * MIB), '<=', 1.0, 'us')
        compare(f'{o.objects} objects', 'one object', 'bandwidth', 'ze_range', 'one object',
                (MIB, 64 * MIB), '>=', 0.97, 'MB/s')
        for size in self.sizes('hit / ucs_rcache', 'ze_range') or [0]:
            for other in ('ucs_rcache', 'ucs_pgtable'):
                values = self.raw.get(f'hit / {other}', {}).get('ze_range', {}).get(size, {})
                times = self.raw.get('hit', {}).get('ze_range', {}).get(size, {})
                put('registration hit, 64 hot ranges', other, size,
                    [(v, times[r], times[r] / v) for r, v in values.items()], '<=', 1.0, 'ns',
                    'ranges')
        ends = self.sizes('hit', 'ze_range')
        hits = self.raw.get('hit', {}).get('ze_range', {})
        put('registration hit, most ranges', 'fewest ranges', ends[-1] if ends else 0,
            [(hits[ends[-1]][r] / hits[ends[0]][r], hits[ends[-1]][r], hits[ends[0]][r])
             for r in set(hits[ends[0]]) & set(hits[ends[-1]])] if ends else [], '<=', 2.0, 'ns',
            'ranges')
        direct('registration hit, random keys', 'ucs_pgtable', 'random / ucs_pgtable', '<=', 1.0,
               'ratio', 'ranges')
        direct('hits of 2 threads, different ranges', '1 thread', 'two threads, different', '>=',
               1.8, 'times', 'ranges')
        direct('hits of 2 threads, same range', '1 thread', 'two threads, same', '>=', 1.3, 'times',
               'ranges')
        direct('open a range and touch it', 'memfds received, mapped, touched',
               'open and touch / memfd', '<=', 1.0, 'ratio', 'objects', (1024, 1024))
        direct('open alone', 'memfds received and mapped', 'open / memfd', '<=', 0.5, 'ratio',
               'objects', (1024, 1024))
        direct('export, per object, first (us)', '-', 'export', '<=', 0.2, 'us', 'objects',
               (1024, 1024))
        direct('export, per object, again (ns)', '-', 'export again', '<=', 20, 'ns', 'objects',
               (1024, 1024))
        direct('grow a range by one, export, open', 'first export and open', 'grow', '<=', 0.05,
               'ratio', 'objects')
        for who, most in (('copy', 1), ('poll', 0)):
            values = self.raw.get('kernel calls', {}).get(who, {}).get(0, {})
            put(f'kernel calls of one {who}', '-', 0, [(v, v, most) for v in values.values()],
                '<=', most, 'calls')
        direct('engines at 200 MB/s each', 'linear', 'engines', '>=', 0.9, 'ratio', 'engines',
               (2, 8))
        for kinds in CHOICES if not o.quick else ():
            direct(f"latency {kinds}, UCP's choice", 'fastest other way', f'choice {kinds}', '<=', 1.1,
                   'ratio', 'size')
        self.put_host_only(rows)
        return rows

    def put_host_only(self, rows):
        pairs = self.ratios('host latency', 'installed', 'not installed', 8)
        control = self.ratios('host latency', 'control', 'not installed', 8)
        row = {'what': 'host-only latency, plugin installed', 'against': 'not installed',
               'size': 8, 'of': 'size', 'ratio': None, 'met': False, 'unit': 'us',
               'target': "inside the control's spread"}
        if pairs and control:
            low, high = min(c[0] for c in control), max(c[0] for c in control)
            ratio = median([p[0] for p in pairs])
            row.update(ratio=round(ratio, 4), low=round(low, 4), high=round(high, 4),
                       mine=round(median([p[1] for p in pairs]), 4),
                       other=round(median([p[2] for p in pairs]), 4), met=ratio <= high)
        rows.append(row)

    def summary(self, rows):
        """One line for each row of the issue: the worst ratio over sizes."""
        groups = {}
        for row in rows:
            groups.setdefault((row['what'], row['against'], row['target']), []).append(row)
        lines = ['| what | against | at | worst ratio | spread there | target | met |',
                 '|---|---|---|---|---|---|---|']
        for (what, against, target), group in groups.items():
            known = [r for r in group if r['ratio'] is not None]
            where = [self.place(r) for r in group]
            at = where[0] if len(where) == 1 else f'{where[0]} to {where[-1]}'
            if len(known) < len(group):
                lines.append(f'| {what} | {against} | {at} | '
                             f'{group[0].get("note", "not measured")} | | {target} | '
                             f'{"-" if "note" in group[0] else "no"} |')
                continue
            worst = (max if target.startswith('<=') else min)(known, key=lambda r: r['ratio'])
            met = sum(r['met'] for r in group)
            verdict = 'yes' if met == len(group) else 'no' if met == 0 else \
                f'{met} of {len(group)}'
            lines.append(f'| {what} | {against} | {at} | {worst["ratio"]:.3g} '
                         f'({self.place(worst)}) | {worst["low"]:.3g} to {worst["high"]:.3g} | '
                         f'{target} | {verdict} |')
        return lines

    @staticmethod
    def place(row):
        if row['of'] != 'size':
            return f'{row["size"]} {row["of"]}'
        return name_of(row['size']) or '-'

    @staticmethod
    def details(rows):
        lines = ['| what | against | at | ours | other | unit | ratio | spread | target | met |',
                 '|---|---|---|---|---|---|---|---|---|---|']
        for r in rows:
            if r['ratio'] is None:
                lines.append(f'| {r["what"]} | {r["against"]} | {Bench.place(r)} | | | | '
                             f'{r.get("note", "not measured")} | | {r["target"]} | '
                             f'{"-" if "note" in r else "no"} |')
            else:
                lines.append(f'| {r["what"]} | {r["against"]} | {Bench.place(r)} | {r["mine"]:.4g} '
                             f'| {r["other"]:.4g} | {r["unit"]} | {r["ratio"]:.3g} | '
                             f'{r["low"]:.3g} to {r["high"]:.3g} | {r["target"]} | '
                             f'{"yes" if r["met"] else "no"} |')
        return lines

    def series(self, what):
        """Medians by contestant, for tables and plots."""
        return {who: {size: median(list(v.values())) for size, v in sorted(sizes.items())}
                for who, sizes in self.raw.get(what, {}).items()}

    def absolute(self, what, unit):
        """Medians by size, or by a number of something."""
        series = self.series(what)
        sizes = sorted({s for v in series.values() for s in v})
        if not series:
            return []
        lines = [f'| {unit} | ' + ' | '.join(series) + ' |', '|---' * (len(series) + 1) + '|']
        for size in sizes:
            lines.append(f'| {name_of(size) if unit == "size" else size} | ' +
                         ' | '.join(f'{v[size]:.4g}' if size in v else '-'
                                    for v in series.values()) + ' |')
        return lines


# ---- files ----

def version_of(command, start):
    try:
        text = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              stdin=subprocess.DEVNULL, timeout=20).stdout.decode(errors='replace')
    except (OSError, subprocess.SubprocessError):
        return 'unknown'
    for line in text.splitlines():
        if start in line:
            return line.strip('# ').strip()
    return 'unknown'


def machine():
    model, cache = 'unknown CPU', ''
    try:
        with open('/proc/cpuinfo') as info:
            for line in info:
                if line.startswith('model name'):
                    model = line.split(':', 1)[1].strip()
                    break
        with open('/sys/devices/system/cpu/cpu0/cache/index3/size') as size:
            cache = f', {size.read().strip()} last-level cache'
    except OSError:
        pass
    return f'{os.cpu_count()} CPUs {model}{cache}, Linux {platform.release()}'


def write_markdown(bench, rows, path, plots):
    o = bench.options
    lines = ['# zerange bench', '',
             f'{time.strftime("%Y-%m-%d")}, {machine()}.  ',
             f'{version_of(["ucx_info", "-v"], "Library version")}; '
             f'{version_of(["mpirun", "--version"], "mpirun")}; device '
             f'{os.environ.get("ZERANGE_SOFT", "real")}.  ',
             f'{bench.rounds_done} interleaved rounds{", quick" if o.quick else ""}; a ratio is the median '
             'of the ratios of the rounds, its spread the least and the greatest. Load before: '
             f'{bench.load}.', '', '## Targets', ''] + bench.summary(rows)
    if bench.failures:
        lines += ['', '## What could not be measured', '']
        lines += [f'- {what}: {why}' for what, why in bench.failures.items()]
    lines += ['', '## Each size', ''] + bench.details(rows)
    for what, title, unit in (('bandwidth', 'Bandwidth, MB/s', 'size'),
                              ('bidirectional', 'Bidirectional, MB/s', 'size'),
                              ('latency', 'Latency, us', 'size'),
                              ('open', 'Open, us for each object', 'objects'),
                              ('touch', 'First touch, us for each object', 'objects'),
                              ('export', 'Export, us for each object', 'objects'),
                              ('miss', 'Registration miss, ns', 'ranges'),
                              ('growth', 'Messages a second of all pairs', 'size'),
                              *((f'choice {kinds}, us', f"UCP's choice and each way it could take, {kinds}, us",
                                 'size') for kinds in CHOICES)):
        table = bench.absolute(what, unit)
        if table:
            lines += ['', f'## {title}', ''] + table
    if plots:
        lines += ['', '## Plots', ''] + [f'![{name}]({name}.svg)' for name in plots]
    lines += ['', '## Commands', '', 'Staging was tuned to ' +
              ' '.join(f'{k}={v}' for k, v in bench.staging.items()) + '.', '', '```']
    lines += [f'{what}: {command}' for what, command in bench.commands.items()]
    lines += ['```', '']
    with open(path, 'w') as out:
        out.write('\n'.join(lines))


PLOTS = (('bandwidth', 'Bandwidth, D D and H H', 'bytes', 'MB/s', 'bandwidth', 'xy'),
         ('latency', 'Latency', 'bytes', 'us', 'latency', 'xy'),
         ('open', 'Opening a range, for each object', 'objects', 'us', None, 'x'),
         ('engines', 'Engines of 200 MB/s', 'engines', 'MB/s', None, ''))


def plot_series(bench, name, what):
    if name == 'open':
        return {'open': bench.series('open').get('ze_range', {}),
                'first touch': bench.series('touch').get('ze_range', {}),
                'memfds received and mapped': bench.series('memfd open').get('ze_range', {}),
                'their first touch': bench.series('memfd touch').get('ze_range', {})}
    if name == 'engines':
        measured = bench.series('engines MB/s').get('ze_range', {})
        return {'measured': measured, 'linear': {n: 200.0 * n for n in measured}}
    return bench.series(what)


def write_plots(bench, folder):
    """@return names of the plots made: NAME.svg and NAME.png"""
    made = []
    for name, title, xlabel, ylabel, what, logs in PLOTS:
        series = {k: v for k, v in plot_series(bench, name, what).items() if v}
        if not series:
            continue
        script = [f'set title "{title}"', f'set xlabel "{xlabel}"', f'set ylabel "{ylabel}"',
                  'set grid', 'set colorsequence podo', 'set key outside top center horizontal',
                  'set style data linespoints']
        for axis in logs:
            script.append(f'set logscale {axis} {2 if axis == "x" else 10}')
        if name in ('bandwidth', 'latency'):
            script.append('set format x "%.0b%BB"')
        for k, values in enumerate(series.values()):
            script.append(f'$d{k} << END')
            script += [f'{x} {y}' for x, y in values.items()]
            script.append('END')
        plot = 'plot ' + ', '.join(f'$d{k} title "{who}" noenhanced pointtype {k + 4}'
                                   for k, who in enumerate(series))
        for terminal, suffix in (('svg size 800,480 dynamic background "white"', 'svg'),
                                 ('png size 800,480', 'png')):
            target = os.path.join(folder, f'{name}.{suffix}')
            text = '\n'.join([f'set terminal {terminal}', f'set output "{target}"'] + script +
                             [plot, ''])
            try:
                subprocess.run(['gnuplot'], input=text.encode(), check=True, timeout=60,
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            except FileNotFoundError:
                print('bench: gnuplot is not installed: no plots', file=sys.stderr)
                return made
            except subprocess.SubprocessError as error:
                text = getattr(error, 'stderr', b'') or b''
                bench.failures[f'plot {name}.{suffix}'] = text.decode(errors='replace')[-200:]
                print(f'bench: plot {name}.{suffix}: {text.decode(errors="replace")[-200:]}',
                      file=sys.stderr)
        made.append(name)
    return made


def parse():
    def number(low, high):
        def take(text):
            if not text.isdigit() or not low <= int(text) <= high:
                raise argparse.ArgumentTypeError(f'{text} is not valid, allowed: {low} to {high}')
            return int(text)
        return take

    parser = argparse.ArgumentParser(prog='./run bench', description='ze_range beside other ways, '
                                     'in interleaved rounds: table of targets, CSV, JSON, plots')
    parser.add_argument('--quick', action='store_true', help='3 short rounds, under 3 minutes')
    parser.add_argument('--objects', type=number(1, 16384), default=64, metavar='N',
                        help='physical objects of each buffer (64)')
    parser.add_argument('--rounds', type=number(1, 99), metavar='N', help='rounds (5; quick 3, or as many as 3 minutes allow)')
    parser.add_argument('--rows', metavar='LIST', default=','.join(PARTS),
                        help='only these parts, by commas: ' + ', '.join(PARTS))
    parser.add_argument('--add', action='store_true',
                        help='to what the folder has of other parts, measured before')
    parser.add_argument('--out', metavar='DIR', help='where bench.md, bench.json, raw.csv and the '
                        'plots go (bench-out in the build folder)')
    options = parser.parse_args()
    options.parts = options.rows.split(',') + ['kernel']
    for part in options.parts[:-1]:
        if part not in PARTS:
            parser.error(f'--rows has {part}, allowed: {", ".join(PARTS)}')
    options.bounded = options.quick and options.rounds is None
    options.rounds = options.rounds or (3 if options.quick else 5)
    options.out = options.out or os.path.join(os.environ.get('builddir', '.'), 'bench-out')
    return options


def main():
    options = parse()
    os.makedirs(options.out, exist_ok=True)
    bench = Bench(options)
    bench.load = '%.1f %.1f %.1f' % os.getloadavg()
    if options.add:
        bench.take_up()
    bench.kernel_calls()
    bench.round = 0
    bench.tune_staging()
    for bench.round in range(1, options.rounds + 1):
        if not sys.stderr.isatty():
            print(f'round {bench.round} of {options.rounds}', file=sys.stderr)
        start = time.monotonic()
        bench.one_round()
        bench.rounds_done = max(bench.rounds_done, bench.round)
        if options.bounded and bench.round < options.rounds and \
                2 * time.monotonic() - start - bench.began > QUICK_S - QUICK_REST_S:
            print(f'bench: this machine is busy or slow: --quick ends after {bench.round} of '
                  f'{options.rounds} rounds', file=sys.stderr)
            break
    bench.host_only()
    bench.growth()
    bench.choice()
    bench.progress('')
    bench.keep()
    rows = bench.rows()
    for line in bench.summary(rows):
        print(line)
    with open(os.path.join(options.out, 'raw.csv'), 'w') as out:
        out.write('\n'.join(['what,contestant,round,size,value'] + bench.lines) + '\n')
    with open(os.path.join(options.out, 'bench.json'), 'w') as out:
        json.dump(rows, out, indent=1)
        out.write('\n')
    plots = write_plots(bench, options.out)
    write_markdown(bench, rows, os.path.join(options.out, 'bench.md'), plots)
    print(f'\nbench: {os.path.join(options.out, "bench.md")} has each size, commands and plots; '
          f'{int(time.monotonic() - bench.began)} s')
    return 1 if bench.failures else 0


if __name__ == '__main__':
    sys.exit(main())
