"""Kills a run again and again, starts it until it ends, and counts what is lost or there twice.

python3 -m venv VENV && VENV/bin/pip install "ray[data]==2.60.0" pyarrow pandas
VENV/bin/python bench/kills/kills.py SEED ROWS
"""

import glob
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import pyarrow as pa
import pyarrow.parquet as pq

KILLS, FILES = 8, 16
seed, rows = int(sys.argv[1]), int(sys.argv[2]) // FILES * FILES
script = os.path.join(os.path.dirname(__file__), 'ray_score.py')
random.seed(seed)
folder = tempfile.mkdtemp(prefix='kills-')
os.makedirs(f'{folder}/in')
for i in range(FILES):
    ids = range(i * rows // FILES, (i + 1) * rows // FILES)
    table = pa.table({'application_id': [f'A{k:08d}' for k in ids], 'amount': [float(k * 7 % 100_000) for k in ids]})
    pq.write_table(table, f'{folder}/in/{i:02d}.parquet', row_group_size=5000)


def session(leader):
    """Processes of the session that `leader` leads."""
    found = []
    for stat in glob.glob('/proc/[0-9]*/stat'):
        try:
            fields = open(stat).read().rsplit(') ', 1)[1].split()
        except OSError:
            continue
        if int(fields[3]) == leader:
            found.append(int(stat.split('/')[2]))
    return found


killed = 0
for attempt in range(4 * KILLS):
    run = subprocess.Popen(
        [sys.executable, script, folder], start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    if attempt >= KILLS:
        if 'done' in run.communicate()[0]:
            break
        continue
    run.stdout.readline()
    time.sleep(random.random() * 6)
    if run.poll() is None:
        for pid in session(run.pid):
            os.kill(pid, signal.SIGKILL)
        killed += 1
    run.wait()
    # Ray's own processes end when they miss their driver.
    time.sleep(3)
seen, broken = {}, 0
for file in glob.glob(f'{folder}/out/**/*', recursive=True):
    if os.path.isdir(file):
        continue
    try:
        for value in pq.read_table(file).column('application_id').to_pylist():
            seen[value] = seen.get(value, 0) + 1
    except pa.ArrowInvalid:
        broken += 1
repeated = sum(n - 1 for n in seen.values())
print(f'seed {seed}: {killed} kills, {rows} rows, {rows - len(seen)} lost, {repeated} repeated, {broken} broken files')
shutil.rmtree(folder)
