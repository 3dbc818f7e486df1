//! Counts words: lines go to several counters by their word, whose counts meet in one table.
//!
//!     cargo run -p lineside-actor --example words < TEXT

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::io::BufRead;

use lineside_actor::{Actor, Address, Config, Context, Outcome, Schedule, System};

/// Splits lines, and gives each word to the counter that it belongs to.
struct Splitter {
    counters: Vec<Address<Vec<String>>>,
    hasher: RandomState,
}

impl Actor for Splitter {
    type Message = Vec<String>;

    fn on_message(
        &mut self,
        lines: Self::Message,
        context: &mut Context<'_, Self::Message>,
    ) -> Outcome {
        let mut batches = vec![Vec::new(); self.counters.len()];
        for word in lines.iter().flat_map(|line| line.split_whitespace()) {
            let word = word.to_lowercase();
            let hash = self.hasher.hash_one(&word) as usize;
            batches[hash % self.counters.len()].push(word);
        }
        for (counter, batch) in self.counters.iter().zip(batches) {
            context.send(counter, batch);
        }
        Ok(())
    }
}

struct Counter {
    counts: HashMap<String, u64>,
    table: Address<HashMap<String, u64>>,
}

impl Actor for Counter {
    type Message = Vec<String>;

    fn on_message(&mut self, words: Self::Message, _: &mut Context<'_, Self::Message>) -> Outcome {
        for word in words {
            *self.counts.entry(word).or_default() += 1;
        }
        Ok(())
    }

    fn on_stop(&mut self, context: &mut Context<'_, Self::Message>) -> Outcome {
        context.send(&self.table, std::mem::take(&mut self.counts));
        Ok(())
    }
}

/// Prints what all counters found.
#[derive(Default)]
struct Table(Vec<(u64, String)>);

impl Actor for Table {
    type Message = HashMap<String, u64>;

    fn on_message(&mut self, counts: Self::Message, _: &mut Context<'_, Self::Message>) -> Outcome {
        self.0
            .extend(counts.into_iter().map(|(word, count)| (count, word)));
        self.0.sort_by(|a, b| b.cmp(a));
        Ok(())
    }

    fn on_stop(&mut self, _: &mut Context<'_, Self::Message>) -> Outcome {
        for (count, word) in self.0.iter().take(10) {
            println!("{count:8} {word}");
        }
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut system = System::new(Config::new(Schedule::stealing(2)))?;
    let table = system.spawn("table", Table::default());
    let counters: Vec<_> = (0..4)
        .map(|index| {
            let counts = HashMap::new();
            let table = table.clone();
            system.spawn(format!("counter {index}"), Counter { counts, table })
        })
        .collect();
    let hasher = RandomState::new();
    let splitter = system.spawn("splitter", Splitter { counters, hasher });
    let mut handle = system.handle();
    let reader = std::thread::spawn(move || {
        let mut lines = std::io::stdin().lock().lines();
        loop {
            let batch: Vec<_> = lines.by_ref().take(256).map_while(Result::ok).collect();
            if batch.is_empty() || handle.send(&splitter, batch).is_err() {
                return;
            }
        }
    });
    let report = system.run()?;
    reader.join().expect("the reader does not panic");
    eprintln!(
        "{} messages in {:?}",
        report.schedulers.iter().map(|s| s.messages).sum::<u64>(),
        report.wall
    );
    Ok(())
}
