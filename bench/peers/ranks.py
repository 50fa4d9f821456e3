"""Processes of PyTorch, one a GPU, that a script starts for its own roles; rank 0 takes orders on its standard input."""
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
