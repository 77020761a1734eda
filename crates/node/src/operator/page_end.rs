use std::{fmt, str::FromStr};

use cheops_replica::Rank;
use cheops_types::{Code, Problem, Stamp};

use crate::operation_ref::{OperationRef, Which};

/// Where a page of operations or conflicts ended: the set, the time and the operation, as text that says
/// nothing to anybody else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PageEnd {
    pub(super) set: String,
    /// None: before all of the set's.
    pub(super) rank: Option<Rank>,
}

impl PageEnd {
    pub(super) fn parse(text: Option<&str>) -> Result<Option<Self>, Problem> {
        text.map(|text| {
            text.parse()
                .map_err(|()| Problem::new(Code::PageToken, "`after` is not the `next` of a page"))
        })
        .transpose()
    }

    pub(super) fn at(set: &str, rank: Rank) -> Self {
        Self {
            set: set.to_owned(),
            rank: Some(rank),
        }
    }

    pub(super) fn before(set: &str) -> Self {
        Self {
            set: set.to_owned(),
            rank: None,
        }
    }
}

impl fmt::Display for PageEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.rank {
            Some(Rank { time, id }) => write!(f, "{}.{}~{}:{id}", time.millis, time.count, self.set),
            None => write!(f, "~{}", self.set),
        }
    }
}

impl FromStr for PageEnd {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (time, rest) = text.split_once('~').ok_or(())?;
        if time.is_empty() {
            return Ok(Self::before(rest));
        }
        let (millis, count) = time.split_once('.').ok_or(())?;
        let time = Stamp {
            millis: millis.parse().map_err(|_| ())?,
            count: count.parse().map_err(|_| ())?,
        };
        let operation: OperationRef = rest.parse().map_err(|_| ())?;
        let Which::Number(id) = operation.which else {
            return Err(());
        };
        Ok(Self::at(operation.set.as_str(), Rank { time, id }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_comes_back() {
        for text in ["12.3~0b7c:site1.7.0.9", "~0b7c"] {
            assert_eq!(text.parse::<PageEnd>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "0b7c", "1~a:site1.7.0.9", "1.2~a", "1.2~a:site1"] {
            let problem = PageEnd::parse(Some(text)).unwrap_err();
            assert_eq!(problem.code, Code::PageToken, "{text}");
        }
        assert_eq!(PageEnd::parse(None).unwrap(), None);
    }
}
