//! The service of traces: text in, text out.

use pentarchy_core::service::{Context, SmallService};
use pentarchy_core::wire::Malformed;
use std::collections::BTreeMap;

/// Words by key.
#[derive(Default)]
pub struct TextService(BTreeMap<String, String>);

impl TextService {
    fn get(&self, key: &str) -> Vec<u8> {
        self.0.get(key).cloned().unwrap_or_default().into_bytes()
    }
}

impl SmallService for TextService {
    fn execute(&mut self, _: &Context, operation: &[u8]) -> Vec<u8> {
        let text = String::from_utf8_lossy(operation);
        let words: Vec<&str> = text.split_whitespace().collect();
        match words.as_slice() {
            ["put", key, value] => {
                self.0.insert((*key).to_owned(), (*value).to_owned());
                b"ok".to_vec()
            }
            ["append", key, value] => {
                let entry = self.0.entry((*key).to_owned()).or_default();
                entry.push_str(value);
                entry.clone().into_bytes()
            }
            ["get", key] => self.get(key),
            _ => b"what?".to_vec(),
        }
    }

    fn query(&self, operation: &[u8]) -> Vec<u8> {
        let text = String::from_utf8_lossy(operation);
        text.strip_prefix("get ").map_or_else(|| b"what?".to_vec(), |key| self.get(key.trim()))
    }

    fn save(&self) -> Vec<u8> {
        let line = |(key, value): (&String, &String)| format!("{key} {value}\n");
        self.0.iter().map(line).collect::<String>().into_bytes()
    }

    fn load(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        let text = core::str::from_utf8(bytes).map_err(|_| Malformed)?;
        let pair = |line: &str| {
            let (key, value) = line.split_once(' ').ok_or(Malformed)?;
            Ok((key.to_owned(), value.to_owned()))
        };
        self.0 = text.lines().map(pair).collect::<Result<_, _>>()?;
        Ok(())
    }
}
