"""What applications do with redis-py, against the gateway on the port that is given."""

import sys
import threading

import redis

PORT = int(sys.argv[1])


def connect(protocol):
    return redis.Redis(
        port=PORT, password="secret", protocol=protocol, decode_responses=True, socket_timeout=20
    )


def passwords():
    for wrong in (None, "wrong"):
        try:
            redis.Redis(port=PORT, password=wrong, protocol=2).ping()
        except redis.AuthenticationError:
            continue
        raise AssertionError("let in without its password")


def basics(client):
    client.flushall()
    assert client.set("key", "value") is True
    assert client.get("key") == "value"
    assert client.get("none") is None
    assert client.incrby("n", 5) == 5
    assert client.rpush("list", "a", "b") == 2
    assert client.lrange("list", 0, -1) == ["a", "b"]
    assert sorted(client.scan_iter()) == ["key", "list", "n"]
    try:
        client.incr("key")
    except redis.ResponseError as error:
        assert "not an integer" in str(error)
    assert client.client_setname("me") and client.client_getname() == "me"
    assert client.info()["redis_version"].startswith("7.")
    assert len(client.time()) == 2
    assert client.config_get("maxclients")["maxclients"]


def transactions(client):
    client.set("balance", 10)
    with client.pipeline() as pipe:
        pipe.watch("balance")
        value = int(pipe.get("balance"))
        pipe.multi()
        pipe.set("balance", value + 1)
        pipe.get("balance")
        assert pipe.execute() == [True, "11"]
        pipe.watch("balance")
        client.set("balance", 50)
        pipe.multi()
        pipe.set("balance", 0)
        try:
            pipe.execute()
            raise AssertionError("a watched key changed")
        except redis.WatchError:
            pass
    assert client.get("balance") == "50"

    def increment(pipe):
        pipe.multi()
        pipe.incr("balance")

    assert client.transaction(increment, "balance") == [51]
    pipe = client.pipeline(transaction=False)
    for _ in range(1000):
        pipe.incr("counter")
    assert pipe.execute() == list(range(1, 1001))
    pipe = client.pipeline()
    pipe.set("text", "x").incr("text").get("text")
    results = pipe.execute(raise_on_error=False)
    assert isinstance(results[1], redis.ResponseError) and results[2] == "x"


def queues(client, protocol):
    assert client.blpop("queue", timeout=0.05) is None
    found = []
    worker = threading.Thread(target=lambda: found.append(connect(protocol).blpop("queue", 10)))
    worker.start()
    while worker.is_alive() and client.info("clients")["blocked_clients"] == 0:
        pass
    client.rpush("queue", "job")
    worker.join(20)
    assert [tuple(item) for item in found] == [("queue", "job")], found
    client.rpush("from", "x")
    assert client.blmove("from", "to", 1) == "x"
    assert client.lrange("to", 0, -1) == ["x"]


def messages(client):
    listener = client.pubsub()
    listener.subscribe("news")
    listener.psubscribe("n*")
    kinds = [listener.get_message(timeout=20)["type"] for _ in range(2)]
    assert kinds == ["subscribe", "psubscribe"], kinds
    assert client.publish("news", "hello") == 2
    got = [listener.get_message(timeout=20) for _ in range(2)]
    assert [m["data"] for m in got] == ["hello", "hello"], got
    assert {m["type"] for m in got} == {"message", "pmessage"}
    assert client.pubsub_numsub("news") == [("news", 1)]
    listener.unsubscribe()
    assert listener.get_message(timeout=20)["type"] == "unsubscribe"
    assert client.publish("news", "again") == 1
    assert listener.get_message(timeout=20)["data"] == "again"
    listener.close()


passwords()
for version in (2, 3):
    one = connect(version)
    basics(one)
    transactions(one)
    queues(one, version)
    messages(one)
