//! A second, plain implementation of the main commands, to compare with.

use crate::support::{Dice, random_command, run, show};
use pentarchy_services::kv::Kv;
use std::collections::BTreeMap;

#[derive(Clone)]
enum Value {
    Text(Vec<u8>),
    List(Vec<Vec<u8>>),
}
use Value::{List, Text};

/// What a command prints: a reply, or an error, or nothing if it is not known.
type Printed = Result<Option<String>, String>;

fn names<'a>(words: &[&'a [u8]]) -> (&'a str, &'a [u8]) {
    (std::str::from_utf8(words[0]).unwrap(), words.get(1).copied().unwrap_or_default())
}

#[derive(Default)]
struct Model(BTreeMap<Vec<u8>, Value>);

const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value";
const NOT_AN_INTEGER: &str = "-ERR value is not an integer or out of range";

fn bulk(value: &[u8]) -> String {
    format!("{:?}", String::from_utf8_lossy(value))
}

impl Model {
    fn text(&self, key: &[u8]) -> Result<Option<Vec<u8>>, String> {
        match self.0.get(key) {
            Some(List(_)) => Err(WRONG_TYPE.into()),
            Some(Text(text)) => Ok(Some(text.clone())),
            None => Ok(None),
        }
    }
    fn list(&self, key: &[u8]) -> Result<Vec<Vec<u8>>, String> {
        match self.0.get(key) {
            Some(Text(_)) => Err(WRONG_TYPE.into()),
            Some(List(list)) => Ok(list.clone()),
            None => Ok(vec![]),
        }
    }
    fn put(&mut self, key: &[u8], list: Vec<Vec<u8>>) -> String {
        let length = list.len();
        self.0.remove(key);
        if length > 0 {
            self.0.insert(key.to_vec(), List(list));
        }
        format!(":{length}")
    }

    /// The printed reply, or `None` for a command that the model does not know.
    fn run(&mut self, words: &[&[u8]]) -> Printed {
        for group in [Self::strings, Self::lists, Self::keys] {
            if let Some(reply) = group(self, words)? {
                return Ok(Some(reply));
            }
        }
        Ok(None)
    }

    fn strings(&mut self, words: &[&[u8]]) -> Printed {
        let (name, key) = names(words);
        Ok(Some(match (name, words.len()) {
            ("SET", 3) => {
                self.0.insert(key.to_vec(), Text(words[2].to_vec()));
                "OK".into()
            }
            ("GET", _) => self.text(key)?.map_or("nil".into(), |text| bulk(&text)),
            ("APPEND", _) => {
                let text = [self.text(key)?.unwrap_or_default(), words[2].to_vec()].concat();
                let length = text.len();
                self.0.insert(key.to_vec(), Text(text));
                format!(":{length}")
            }
            ("INCR", _) => {
                let text = self.text(key)?.unwrap_or_else(|| b"0".to_vec());
                let value: i64 = String::from_utf8(text)
                    .ok()
                    .and_then(|text| text.parse().ok())
                    .ok_or(NOT_AN_INTEGER)?;
                let value = value
                    .checked_add(1)
                    .ok_or("-ERR increment or decrement would overflow".to_string())?;
                self.0.insert(key.to_vec(), Text(value.to_string().into_bytes()));
                format!(":{value}")
            }
            ("STRLEN", _) => format!(":{}", self.text(key)?.unwrap_or_default().len()),
            _ => return Ok(None),
        }))
    }

    fn lists(&mut self, words: &[&[u8]]) -> Printed {
        let (name, key) = names(words);
        let number = |at: usize| -> Result<i64, String> {
            let text = std::str::from_utf8(words[at]).unwrap();
            text.parse().map_err(|_| NOT_AN_INTEGER.to_string())
        };
        Ok(Some(match (name, words.len()) {
            ("LPUSH", _) => {
                let list = words[2..].iter().rev().map(|word| word.to_vec());
                let list = list.chain(self.list(key)?).collect();
                self.put(key, list)
            }
            ("RPUSH", _) => {
                let mut list = self.list(key)?;
                list.extend(words[2..].iter().map(|word| word.to_vec()));
                self.put(key, list)
            }
            ("LPOP", 2) => {
                let mut list = self.list(key)?;
                if list.is_empty() {
                    return Ok(Some("nil".into()));
                }
                let item = list.remove(0);
                self.put(key, list);
                bulk(&item)
            }
            ("LLEN", _) => format!(":{}", self.list(key)?.len()),
            ("LRANGE", _) => {
                let (start, end) = (number(2)?, number(3)?);
                let list = self.list(key)?;
                let n = list.len() as i64;
                let at = |i: i64| if i < 0 { n + i } else { i };
                let items = (0..n).filter(|i| (at(start)..=at(end)).contains(i));
                let items: Vec<_> = items.map(|i| bulk(&list[i as usize])).collect();
                format!("[{}]", items.join(" "))
            }
            ("LREM", _) => {
                let count = number(2)?;
                let list = self.list(key)?;
                let mut left = if count == 0 { i64::MAX } else { count.abs() };
                let mut keep = |item: &Vec<u8>| {
                    let gone = item == words[3] && left > 0;
                    left -= i64::from(gone);
                    !gone
                };
                let mut kept: Vec<_> = list.clone();
                if count < 0 {
                    kept.reverse();
                }
                kept.retain(&mut keep);
                if count < 0 {
                    kept.reverse();
                }
                let removed = list.len() - kept.len();
                if removed > 0 {
                    self.put(key, kept);
                }
                format!(":{removed}")
            }
            _ => return Ok(None),
        }))
    }

    fn keys(&mut self, words: &[&[u8]]) -> Printed {
        let (name, key) = names(words);
        Ok(Some(match (name, words.len()) {
            ("DEL", _) => {
                let gone = words[1..].iter().filter(|key| self.0.remove(**key).is_some());
                format!(":{}", gone.count())
            }
            ("EXISTS", _) => {
                format!(":{}", words[1..].iter().filter(|k| self.0.contains_key(**k)).count())
            }
            ("RENAME", _) => {
                let value = self.0.remove(key).ok_or("-ERR no such key".to_string())?;
                self.0.insert(words[2].to_vec(), value);
                "OK".into()
            }
            ("DBSIZE", _) => format!(":{}", self.0.len()),
            _ => return Ok(None),
        }))
    }
}

#[test]
fn the_store_does_what_a_plain_model_does() {
    for seed in 0..20 {
        let (mut kv, mut model, mut dice) = (Kv::default(), Model::default(), Dice(seed));
        let mut compared = 0;
        while compared < 500 {
            let command = random_command(&mut dice);
            let wanted = match model.run(&command) {
                Ok(None) => continue,
                Ok(Some(reply)) | Err(reply) => reply,
            };
            let line = String::from_utf8(command.join(&b' ')).unwrap();
            assert_eq!(show(&run(&mut kv, &command)), wanted, "seed {seed}: {line}");
            compared += 1;
        }
    }
}
