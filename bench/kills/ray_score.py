"""Scores a folder of Parquet files with Ray Data and its row checkpoints: python ray_score.py FOLDER."""

import sys
import time

import numpy as np
import ray
from ray.data.checkpoint import CheckpointConfig

folder = sys.argv[1]
ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level='ERROR', object_store_memory=300_000_000)
context = ray.data.DataContext.get_current()
context.enable_progress_bars = False
context.checkpoint_config = CheckpointConfig(
    id_column='application_id', checkpoint_path=f'{folder}/checkpoint', delete_checkpoint_on_success=False
)


def score(batch):
    # As long as a small model takes, so that kills come in the midst of it.
    time.sleep(0.02)
    return {'application_id': batch['application_id'], 'probability': 1 / (1 + np.exp(-(batch['amount'] % 1000) / 1000))}


print('go', flush=True)
ray.data.read_parquet(f'{folder}/in').map_batches(score, batch_size=2048).write_parquet(f'{folder}/out')
print('done', flush=True)
