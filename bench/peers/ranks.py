"""Processes of PyTorch, one a GPU, that a script starts for its own roles; rank 0 takes orders on its standard input."""
import json
import os
import socket
import subprocess
import sys


def start_ranks(script, ranks, role):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    started = []
    for rank in range(ranks):
        env = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), NCCL_NVLS_ENABLE="0")
        started.append(subprocess.Popen([sys.executable, os.path.abspath(script), role], env=env, text=True,
                                        stdin=subprocess.PIPE if rank == 0 else subprocess.DEVNULL, stdout=subprocess.PIPE if rank == 0 else None))
    return started


def next_order(dist, orders):
    """A line of JSON that rank 0 reads, on all ranks; None at its end. orders: a group of gloo. A rank that waited by NCCL
    would keep a kernel on its GPU, and halve the speed of whatever else is timed there."""
    order = [json.loads(sys.stdin.readline() or "null") if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(order, 0, group=orders)
    return order[0]
