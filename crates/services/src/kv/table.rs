//! The commands themselves, by name.

use super::command_info::{CommandInfo, Entry, Handler, Keys};
use super::{bits, expiry, hashes, keys, lists, object, scan, set_algebra, sets, strings};
use super::{zalgebra, zranges, zsets};

const fn keys_at(first: i8, last: i8, step: i8) -> Keys {
    Keys { first, last, step }
}

macro_rules! commands {
    ($($name:literal $arity:literal $kind:ident $handler:path, [$($flag:literal)*]
       ($first:literal $last:literal $step:literal) $group:literal $since:literal
       $summary:literal;)*) => {
        &[$(Entry {
            info: CommandInfo {
                name: $name,
                arity: $arity,
                flags: commands!(@flags $kind $($flag)*),
                keys: keys_at($first, $last, $step),
                group: $group,
                since: $since,
                summary: $summary,
            },
            handler: Handler::$kind($handler),
        }),*]
    };
    (@flags Read $($flag:literal)*) => { &["readonly", $($flag),*] };
    (@flags Drawn $($flag:literal)*) => { &["readonly", $($flag),*] };
    (@flags Taken $($flag:literal)*) => { &["write", $($flag),*] };
    (@flags Write $($flag:literal)*) => { &["write", $($flag),*] };
    (@flags Grow $($flag:literal)*) => { &["write", "denyoom", $($flag),*] };
}

/// All commands, by name.
pub(crate) static TABLE: &[Entry] = commands![
    "append" 3 Grow strings::append, ["fast"] (1 1 1)
        "string" "2.0.0" "Appends a string to the value of a key";
    "bitcount" -2 Read bits::bitcount, [] (1 1 1)
        "bitmap" "2.6.0" "Counts the bits of a string that are set";
    "bitop" -4 Grow bits::bitop, [] (2 -1 1)
        "bitmap" "2.6.0" "Combines the bits of strings";
    "bitpos" -3 Read bits::bitpos, [] (1 1 1)
        "bitmap" "2.8.7" "Returns the place of the first bit that is set, or is not";
    "copy" -3 Grow keys::copy, [] (1 2 1)
        "generic" "6.2.0" "Copies the value of a key to another key";
    "dbsize" 1 Read keys::dbsize, ["fast"] (0 0 0)
        "server" "1.0.0" "Counts the keys";
    "decr" 2 Grow strings::decr, ["fast"] (1 1 1)
        "string" "1.0.0" "Takes one from the integer value of a key";
    "decrby" 3 Grow strings::decrby, ["fast"] (1 1 1)
        "string" "1.0.0" "Takes a number from the integer value of a key";
    "del" -2 Write keys::del, [] (1 -1 1)
        "generic" "1.0.0" "Deletes keys";
    "exists" -2 Read keys::exists, ["fast"] (1 -1 1)
        "generic" "1.0.0" "Counts which of the given keys exist";
    "expire" -3 Write expiry::expire, ["fast"] (1 1 1)
        "generic" "1.0.0" "Sets in how many seconds a key ends";
    "expireat" -3 Write expiry::expireat, ["fast"] (1 1 1)
        "generic" "1.2.0" "Sets the second at which a key ends";
    "expiretime" 2 Read expiry::expiretime, ["fast"] (1 1 1)
        "generic" "7.0.0" "Returns the second at which a key ends";
    "flushall" -1 Write keys::flush, [] (0 0 0)
        "server" "1.0.0" "Deletes all keys";
    "flushdb" -1 Write keys::flush, [] (0 0 0)
        "server" "1.0.0" "Deletes all keys";
    "get" 2 Read strings::get, ["fast"] (1 1 1)
        "string" "1.0.0" "Returns the string value of a key";
    "getbit" 3 Read bits::getbit, ["fast"] (1 1 1)
        "bitmap" "2.2.0" "Returns a bit of a string";
    "getdel" 2 Write strings::getdel, ["fast"] (1 1 1)
        "string" "6.2.0" "Returns the string value of a key and deletes the key";
    "getex" -2 Write strings::getex, ["fast"] (1 1 1)
        "string" "6.2.0" "Returns the string value of a key and sets when it ends";
    "getrange" 4 Read strings::getrange, [] (1 1 1)
        "string" "2.4.0" "Returns a part of the string value of a key";
    "getset" 3 Grow strings::getset, ["fast"] (1 1 1)
        "string" "1.0.0" "Sets the string value of a key and returns the one before";
    "hdel" -3 Write hashes::hdel, ["fast"] (1 1 1)
        "hash" "2.0.0" "Deletes fields of a hash";
    "hexists" 3 Read hashes::hexists, ["fast"] (1 1 1)
        "hash" "2.0.0" "Says whether a hash has a field";
    "hget" 3 Read hashes::hget, ["fast"] (1 1 1)
        "hash" "2.0.0" "Returns the value of a field of a hash";
    "hgetall" 2 Read hashes::hgetall, [] (1 1 1)
        "hash" "2.0.0" "Returns all fields and values of a hash";
    "hincrby" 4 Grow hashes::hincrby, ["fast"] (1 1 1)
        "hash" "2.0.0" "Adds a number to the integer value of a field";
    "hincrbyfloat" 4 Grow hashes::hincrbyfloat, ["fast"] (1 1 1)
        "hash" "2.6.0" "Adds a number to the value of a field";
    "hkeys" 2 Read hashes::hkeys, [] (1 1 1)
        "hash" "2.0.0" "Returns all fields of a hash";
    "hlen" 2 Read hashes::hlen, ["fast"] (1 1 1)
        "hash" "2.0.0" "Returns the number of fields of a hash";
    "hmget" -3 Read hashes::hmget, ["fast"] (1 1 1)
        "hash" "2.0.0" "Returns the values of fields of a hash";
    "hmset" -4 Grow hashes::hmset, ["fast"] (1 1 1)
        "hash" "2.0.0" "Sets the values of fields of a hash";
    "hrandfield" -2 Drawn hashes::hrandfield, [] (1 1 1)
        "hash" "6.2.0" "Returns random fields of a hash";
    "hscan" -3 Read scan::hscan, [] (1 1 1)
        "hash" "2.8.0" "Walks the fields of a hash, some at a time";
    "hset" -4 Grow hashes::hset, ["fast"] (1 1 1)
        "hash" "2.0.0" "Sets the values of fields of a hash";
    "hsetnx" 4 Grow hashes::hsetnx, ["fast"] (1 1 1)
        "hash" "2.0.0" "Sets the value of a field that does not exist";
    "hstrlen" 3 Read hashes::hstrlen, ["fast"] (1 1 1)
        "hash" "3.2.0" "Returns the length of the value of a field";
    "hvals" 2 Read hashes::hvals, [] (1 1 1)
        "hash" "2.0.0" "Returns all values of a hash";
    "incr" 2 Grow strings::incr, ["fast"] (1 1 1)
        "string" "1.0.0" "Adds one to the integer value of a key";
    "incrby" 3 Grow strings::incrby, ["fast"] (1 1 1)
        "string" "1.0.0" "Adds a number to the integer value of a key";
    "incrbyfloat" 3 Grow strings::incrbyfloat, ["fast"] (1 1 1)
        "string" "2.6.0" "Adds a number to the value of a key";
    "keys" 2 Read keys::keys, [] (0 0 0)
        "generic" "1.0.0" "Returns the keys that match a pattern";
    "lindex" 3 Read lists::lindex, [] (1 1 1)
        "list" "1.0.0" "Returns an element of a list by its index";
    "linsert" 5 Grow lists::linsert, [] (1 1 1)
        "list" "2.2.0" "Inserts an element before or after another one";
    "llen" 2 Read lists::llen, ["fast"] (1 1 1)
        "list" "1.0.0" "Returns the length of a list";
    "lmove" 5 Grow lists::lmove, [] (1 2 1)
        "list" "6.2.0" "Moves an element from an end of one list to an end of another";
    "lmpop" -4 Write lists::lmpop, ["movablekeys"] (0 0 0)
        "list" "7.0.0" "Removes and returns elements of the first list that has any";
    "lpop" -2 Write lists::lpop, ["fast"] (1 1 1)
        "list" "1.0.0" "Removes and returns the first elements of a list";
    "lpos" -3 Read lists::lpos, [] (1 1 1)
        "list" "6.0.6" "Returns where a list has an element";
    "lpush" -3 Grow lists::lpush, ["fast"] (1 1 1)
        "list" "1.0.0" "Puts elements before a list, which is created if need be";
    "lpushx" -3 Grow lists::lpushx, ["fast"] (1 1 1)
        "list" "2.2.0" "Puts elements before a list that exists";
    "lrange" 4 Read lists::lrange, [] (1 1 1)
        "list" "1.0.0" "Returns a range of elements of a list";
    "lrem" 4 Write lists::lrem, [] (1 1 1)
        "list" "1.0.0" "Removes elements of a list by their value";
    "lset" 4 Grow lists::lset, [] (1 1 1)
        "list" "1.0.0" "Sets an element of a list by its index";
    "ltrim" 4 Write lists::ltrim, [] (1 1 1)
        "list" "1.0.0" "Removes the elements of a list outside a range";
    "mget" -2 Read strings::mget, ["fast"] (1 -1 1)
        "string" "1.0.0" "Returns the string values of keys";
    "mset" -3 Grow strings::mset, [] (1 -1 2)
        "string" "1.0.1" "Sets the string values of keys, all at once";
    "msetnx" -3 Grow strings::msetnx, [] (1 -1 2)
        "string" "1.0.1" "Sets the string values of keys if none of them exists";
    "object" -2 Read object::object, [] (2 2 1)
        "generic" "2.2.3" "Tells how a value is kept";
    "persist" 2 Write expiry::persist, ["fast"] (1 1 1)
        "generic" "2.2.0" "Lets a key not end";
    "pexpire" -3 Write expiry::pexpire, ["fast"] (1 1 1)
        "generic" "2.6.0" "Sets in how many milliseconds a key ends";
    "pexpireat" -3 Write expiry::pexpireat, ["fast"] (1 1 1)
        "generic" "2.6.0" "Sets the millisecond at which a key ends";
    "pexpiretime" 2 Read expiry::pexpiretime, ["fast"] (1 1 1)
        "generic" "7.0.0" "Returns the millisecond at which a key ends";
    "psetex" 4 Grow strings::psetex, [] (1 1 1)
        "string" "2.6.0" "Sets the string value of a key that ends in so many milliseconds";
    "pttl" 2 Read expiry::pttl, ["fast"] (1 1 1)
        "generic" "2.6.0" "Returns in how many milliseconds a key ends";
    "randomkey" 1 Drawn keys::randomkey, [] (0 0 0)
        "generic" "1.0.0" "Returns some key";
    "rename" 3 Write keys::rename, [] (1 2 1)
        "generic" "1.0.0" "Renames a key, over another one if need be";
    "renamenx" 3 Write keys::renamenx, ["fast"] (1 2 1)
        "generic" "1.0.0" "Renames a key if the new name is free";
    "rpop" -2 Write lists::rpop, ["fast"] (1 1 1)
        "list" "1.0.0" "Removes and returns the last elements of a list";
    "rpoplpush" 3 Grow lists::rpoplpush, [] (1 2 1)
        "list" "1.2.0" "Moves the last element of a list before another list";
    "rpush" -3 Grow lists::rpush, ["fast"] (1 1 1)
        "list" "1.0.0" "Puts elements behind a list, which is created if need be";
    "rpushx" -3 Grow lists::rpushx, ["fast"] (1 1 1)
        "list" "2.2.0" "Puts elements behind a list that exists";
    "sadd" -3 Grow sets::sadd, ["fast"] (1 1 1)
        "set" "1.0.0" "Adds members to a set, which is created if need be";
    "scan" -2 Read scan::scan, [] (0 0 0)
        "generic" "2.8.0" "Walks all keys, some at a time";
    "scard" 2 Read sets::scard, ["fast"] (1 1 1)
        "set" "1.0.0" "Returns the number of members of a set";
    "sdiff" -2 Read set_algebra::sdiff, [] (1 -1 1)
        "set" "1.0.0" "Returns the members of a set that others do not have";
    "sdiffstore" -3 Grow set_algebra::sdiffstore, [] (1 -1 1)
        "set" "1.0.0" "Keeps the members of a set that others do not have";
    "set" -3 Grow strings::set, [] (1 1 1)
        "string" "1.0.0" "Sets the string value of a key, whatever it held";
    "setbit" 4 Grow bits::setbit, [] (1 1 1)
        "bitmap" "2.2.0" "Sets or clears a bit of a string";
    "setex" 4 Grow strings::setex, [] (1 1 1)
        "string" "2.0.0" "Sets the string value of a key that ends in so many seconds";
    "setnx" 3 Grow strings::setnx, ["fast"] (1 1 1)
        "string" "1.0.0" "Sets the string value of a key that does not exist";
    "setrange" 4 Grow strings::setrange, [] (1 1 1)
        "string" "2.2.0" "Overwrites a part of the string value of a key";
    "sinter" -2 Read set_algebra::sinter, [] (1 -1 1)
        "set" "1.0.0" "Returns the members that sets have in common";
    "sintercard" -3 Read set_algebra::sintercard, ["movablekeys"] (0 0 0)
        "set" "7.0.0" "Counts the members that sets have in common";
    "sinterstore" -3 Grow set_algebra::sinterstore, [] (1 -1 1)
        "set" "1.0.0" "Keeps the members that sets have in common";
    "sismember" 3 Read sets::sismember, ["fast"] (1 1 1)
        "set" "1.0.0" "Says whether a set has a member";
    "smembers" 2 Read sets::smembers, [] (1 1 1)
        "set" "1.0.0" "Returns all members of a set";
    "smismember" -3 Read sets::smismember, ["fast"] (1 1 1)
        "set" "6.2.0" "Says which members a set has";
    "smove" 4 Write sets::smove, ["fast"] (1 2 1)
        "set" "1.0.0" "Moves a member from one set to another";
    "spop" -2 Taken sets::spop, ["fast"] (1 1 1)
        "set" "1.0.0" "Removes and returns random members of a set";
    "srandmember" -2 Drawn sets::srandmember, [] (1 1 1)
        "set" "1.0.0" "Returns random members of a set";
    "srem" -3 Write sets::srem, ["fast"] (1 1 1)
        "set" "1.0.0" "Removes members of a set";
    "sscan" -3 Read scan::sscan, [] (1 1 1)
        "set" "2.8.0" "Walks the members of a set, some at a time";
    "strlen" 2 Read strings::strlen, ["fast"] (1 1 1)
        "string" "2.2.0" "Returns the length of the string value of a key";
    "substr" 4 Read strings::getrange, [] (1 1 1)
        "string" "1.0.0" "Returns a part of the string value of a key";
    "sunion" -2 Read set_algebra::sunion, [] (1 -1 1)
        "set" "1.0.0" "Returns the members of all sets";
    "sunionstore" -3 Grow set_algebra::sunionstore, [] (1 -1 1)
        "set" "1.0.0" "Keeps the members of all sets";
    "swapdb" 3 Read keys::swapdb, ["fast"] (0 0 0)
        "server" "4.0.0" "Exchanges two databases, of which there is one";
    "touch" -2 Read keys::exists, ["fast"] (1 -1 1)
        "generic" "3.2.1" "Counts which of the given keys exist";
    "ttl" 2 Read expiry::ttl, ["fast"] (1 1 1)
        "generic" "1.0.0" "Returns in how many seconds a key ends";
    "type" 2 Read keys::type_of, ["fast"] (1 1 1)
        "generic" "1.0.0" "Returns the type of the value of a key";
    "unlink" -2 Write keys::del, ["fast"] (1 -1 1)
        "generic" "4.0.0" "Deletes keys";
    "zadd" -4 Grow zsets::zadd, ["fast"] (1 1 1)
        "sorted-set" "1.2.0" "Adds members to a sorted set, or changes their scores";
    "zcard" 2 Read zsets::zcard, ["fast"] (1 1 1)
        "sorted-set" "1.2.0" "Returns the number of members of a sorted set";
    "zcount" 4 Read zranges::zcount, ["fast"] (1 1 1)
        "sorted-set" "2.0.0" "Counts the members in a range of scores";
    "zdiff" -3 Read zalgebra::zdiff, ["movablekeys"] (0 0 0)
        "sorted-set" "6.2.0" "Returns the members of a sorted set that others do not have";
    "zdiffstore" -4 Grow zalgebra::zdiffstore, ["movablekeys"] (1 1 1)
        "sorted-set" "6.2.0" "Keeps the members of a sorted set that others do not have";
    "zincrby" 4 Grow zsets::zincrby, ["fast"] (1 1 1)
        "sorted-set" "1.2.0" "Adds to the score of a member";
    "zinter" -3 Read zalgebra::zinter, ["movablekeys"] (0 0 0)
        "sorted-set" "6.2.0" "Returns the members that sorted sets have in common";
    "zintercard" -3 Read zalgebra::zintercard, ["movablekeys"] (0 0 0)
        "sorted-set" "7.0.0" "Counts the members that sorted sets have in common";
    "zinterstore" -4 Grow zalgebra::zinterstore, ["movablekeys"] (1 1 1)
        "sorted-set" "2.0.0" "Keeps the members that sorted sets have in common";
    "zlexcount" 4 Read zranges::zlexcount, ["fast"] (1 1 1)
        "sorted-set" "2.8.9" "Counts the members in a range of bytes";
    "zmpop" -4 Write zsets::zmpop, ["movablekeys"] (0 0 0)
        "sorted-set" "7.0.0" "Removes and returns members of the first sorted set that has any";
    "zmscore" -3 Read zsets::zmscore, ["fast"] (1 1 1)
        "sorted-set" "6.2.0" "Returns the scores of members";
    "zpopmax" -2 Write zsets::zpopmax, ["fast"] (1 1 1)
        "sorted-set" "5.0.0" "Removes and returns the members with the highest scores";
    "zpopmin" -2 Write zsets::zpopmin, ["fast"] (1 1 1)
        "sorted-set" "5.0.0" "Removes and returns the members with the lowest scores";
    "zrandmember" -2 Drawn zsets::zrandmember, [] (1 1 1)
        "sorted-set" "6.2.0" "Returns random members of a sorted set";
    "zrange" -4 Read zranges::zrange, [] (1 1 1)
        "sorted-set" "1.2.0" "Returns a range of members";
    "zrangebylex" -4 Read zranges::zrangebylex, [] (1 1 1)
        "sorted-set" "2.8.9" "Returns the members in a range of bytes";
    "zrangebyscore" -4 Read zranges::zrangebyscore, [] (1 1 1)
        "sorted-set" "1.0.5" "Returns the members in a range of scores";
    "zrangestore" -5 Grow zranges::zrangestore, [] (1 2 1)
        "sorted-set" "6.2.0" "Keeps a range of members";
    "zrank" -3 Read zsets::zrank, ["fast"] (1 1 1)
        "sorted-set" "2.0.0" "Returns how many members have lower scores";
    "zrem" -3 Write zsets::zrem, ["fast"] (1 1 1)
        "sorted-set" "1.2.0" "Removes members of a sorted set";
    "zremrangebylex" 4 Write zranges::zremrangebylex, [] (1 1 1)
        "sorted-set" "2.8.9" "Removes the members in a range of bytes";
    "zremrangebyrank" 4 Write zranges::zremrangebyrank, [] (1 1 1)
        "sorted-set" "2.0.0" "Removes the members in a range of ranks";
    "zremrangebyscore" 4 Write zranges::zremrangebyscore, [] (1 1 1)
        "sorted-set" "1.2.0" "Removes the members in a range of scores";
    "zrevrange" -4 Read zranges::zrevrange, [] (1 1 1)
        "sorted-set" "1.2.0" "Returns a range of members, the highest score first";
    "zrevrangebylex" -4 Read zranges::zrevrangebylex, [] (1 1 1)
        "sorted-set" "2.8.9" "Returns the members in a range of bytes, the last first";
    "zrevrangebyscore" -4 Read zranges::zrevrangebyscore, [] (1 1 1)
        "sorted-set" "2.2.0" "Returns the members in a range of scores, the highest first";
    "zrevrank" -3 Read zsets::zrevrank, ["fast"] (1 1 1)
        "sorted-set" "2.0.0" "Returns how many members have higher scores";
    "zscan" -3 Read scan::zscan, [] (1 1 1)
        "sorted-set" "2.8.0" "Walks the members of a sorted set, some at a time";
    "zscore" 3 Read zsets::zscore, ["fast"] (1 1 1)
        "sorted-set" "1.2.0" "Returns the score of a member";
    "zunion" -3 Read zalgebra::zunion, ["movablekeys"] (0 0 0)
        "sorted-set" "6.2.0" "Returns the members of all sorted sets";
    "zunionstore" -4 Grow zalgebra::zunionstore, ["movablekeys"] (1 1 1)
        "sorted-set" "2.0.0" "Keeps the members of all sorted sets";
];
