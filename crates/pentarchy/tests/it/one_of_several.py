"""A client that finds a gateway as libraries find a master of Redis, and does each thing once.

Arguments: how often to add one, and the ports of the gateways. Prints each count as it is told it.
"""

import sys
import uuid

import redis
from redis.sentinel import MasterNotFoundError, Sentinel

TIMES, PORTS = int(sys.argv[1]), [int(port) for port in sys.argv[2:]]
GIVES_UP = 200
gateways = Sentinel([("127.0.0.1", port) for port in PORTS], socket_timeout=3)
store = gateways.master_for("pentarchy", socket_timeout=3, decode_responses=True)
for _ in range(TIMES):
    key = f"once:{uuid.uuid4()}"
    for attempt in range(GIVES_UP):
        try:
            print(store.execute_command("ONCE", key, 600, "INCR", "count"), flush=True)
            break
        except (redis.ConnectionError, redis.TimeoutError, MasterNotFoundError):
            if attempt + 1 == GIVES_UP:
                raise
