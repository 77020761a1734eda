//! Printing and reading a receipt's header form.

use std::fmt::Write as _;

use super::{Outcome, PlanKind, Receipt, Visit};
use crate::{ServiceName, SiteName};

/// Why a text is not a receipt.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a receipt: {what} at byte {at}")]
pub struct InvalidReceipt {
    pub what: &'static str,
    pub at: usize,
}

pub(super) fn print(receipt: &Receipt) -> String {
    let mut out = String::with_capacity(96);
    out.push_str("plan=");
    out.push_str(receipt.plan.as_str());
    if !receipt.complete {
        out.push_str(", complete=?0");
    }
    print_visits(&mut out, "sites", &receipt.sites);
    if !receipt.workflow.is_empty() {
        print_visits(&mut out, "workflow", &receipt.workflow);
    }
    if !receipt.unused.is_empty() {
        out.push_str(", unused=(");
        for (i, service) in receipt.unused.iter().enumerate() {
            if i > 0 {
                out.push(' ');
            }
            print_string(&mut out, service);
        }
        out.push(')');
    }
    if let Some(operation) = &receipt.operation {
        out.push_str(", operation=");
        print_string(&mut out, operation);
    }
    if let Some(set) = &receipt.set {
        out.push_str(", set=");
        print_string(&mut out, set);
    }
    if let Some(held) = receipt.held {
        let _ = write!(out, ", held={held}");
    }
    out
}

fn print_visits(out: &mut String, key: &str, visits: &[Visit]) {
    out.push_str(", ");
    out.push_str(key);
    out.push_str("=(");
    for (i, visit) in visits.iter().enumerate() {
        if i > 0 {
            out.push(' ');
        }
        print_string(out, &visit.site);
        if let Some(service) = &visit.service {
            out.push_str(";service=");
            print_string(out, service);
        }
        out.push_str(";outcome=");
        out.push_str(visit.outcome.as_str());
        if let Some(status) = visit.status {
            out.push_str(";status=");
            push_number(out, status);
        }
        if let Some(error) = &visit.error {
            out.push_str(";error=");
            print_string(out, error);
        }
        if let Some(items) = visit.items {
            let _ = write!(out, ";items={items}");
        }
    }
    out.push(')');
}

/// Without the machinery of formatting: every receipt has a status.
fn push_number(out: &mut String, number: u16) {
    let first = (0..5)
        .rev()
        .find(|place| number >= 10_u16.pow(*place))
        .unwrap_or(0);
    for place in (0..=first).rev() {
        out.push(char::from(b'0' + (number / 10_u16.pow(place) % 10) as u8));
    }
}

/// Structured Field strings hold printable ASCII; anything else becomes `?`.
fn print_string(out: &mut String, text: &str) {
    out.push('"');
    if text
        .bytes()
        .all(|b| matches!(b, b' '..=b'~') && !matches!(b, b'"' | b'\\'))
    {
        out.push_str(text);
        out.push('"');
        return;
    }
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            ' '..='~' => out.push(c),
            _ => out.push('?'),
        }
    }
    out.push('"');
}

/// What this agent knows of a receipt, and of a visit in it.
const KEYS: [&str; 8] = [
    "plan",
    "complete",
    "sites",
    "workflow",
    "unused",
    "operation",
    "set",
    "held",
];
const PARAMETERS: [&str; 5] = ["service", "outcome", "status", "error", "items"];

pub(super) fn parse(text: &str) -> Result<Receipt, InvalidReceipt> {
    let mut reader = Reader {
        text: text.as_bytes(),
        at: 0,
    };
    let mut receipt = Receipt::new(PlanKind::Local, Vec::new());
    let mut has_plan = false;
    loop {
        reader.spaces();
        let key = reader.token()?;
        if KEYS.contains(&key) {
            reader.expect(b'=', "`=` is missing")?;
        }
        match key {
            "plan" => {
                // A newer agent may call its plan something else; what happened is in the sites.
                let kind = PlanKind::from_token(reader.token()?);
                receipt.plan = kind.unwrap_or(receipt.plan);
                has_plan = true;
            }
            "complete" => receipt.complete = reader.boolean()?,
            "sites" => receipt.sites = reader.list(Reader::visit)?,
            "workflow" => receipt.workflow = reader.list(Reader::visit)?,
            "set" => receipt.set = Some(reader.string()?),
            "held" => receipt.held = Some(reader.number()?),
            "unused" => receipt.unused = reader.list(Reader::service)?,
            "operation" => receipt.operation = Some(reader.string()?),
            // What a newer agent says besides.
            _ => reader.rest_of_member()?,
        }
        reader.spaces();
        if reader.peek().is_none() {
            break;
        }
        reader.expect(b',', "`,` is missing")?;
    }
    if has_plan {
        Ok(receipt)
    } else {
        reader.fail("the plan is missing")
    }
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn fail<T>(&self, what: &'static str) -> Result<T, InvalidReceipt> {
        Err(InvalidReceipt { what, at: self.at })
    }

    fn spaces(&mut self) {
        while self.peek() == Some(b' ') {
            self.at += 1;
        }
    }

    fn expect(&mut self, byte: u8, what: &'static str) -> Result<(), InvalidReceipt> {
        if self.peek() == Some(byte) {
            self.at += 1;
            Ok(())
        } else {
            self.fail(what)
        }
    }

    fn token(&mut self) -> Result<&'a str, InvalidReceipt> {
        let start = self.at;
        while self
            .peek()
            .is_some_and(|b| b.is_ascii_alphanumeric() || b"-_.!#$%&'*+^`|~:/".contains(&b))
        {
            self.at += 1;
        }
        match std::str::from_utf8(&self.text[start..self.at]) {
            Ok(token) if !token.is_empty() => Ok(token),
            _ => self.fail("a word is missing"),
        }
    }

    fn number<T: std::str::FromStr>(&mut self) -> Result<T, InvalidReceipt> {
        let token = self.token()?;
        token.parse().or_else(|_| self.fail("a number is missing"))
    }

    fn boolean(&mut self) -> Result<bool, InvalidReceipt> {
        self.expect(b'?', "`?0` or `?1` is missing")?;
        match self.token()? {
            "0" => Ok(false),
            "1" => Ok(true),
            _ => self.fail("`?0` or `?1` is missing"),
        }
    }

    fn string(&mut self) -> Result<String, InvalidReceipt> {
        self.expect(b'"', "a string is missing")?;
        let mut out = String::new();
        loop {
            let Some(byte) = self.peek() else {
                return self.fail("a string is not closed");
            };
            self.at += 1;
            match byte {
                b'"' => return Ok(out),
                b'\\' => {
                    let Some(escaped @ (b'"' | b'\\')) = self.peek() else {
                        return self.fail("a wrong escape");
                    };
                    self.at += 1;
                    out.push(escaped as char);
                }
                b' '..=b'~' => out.push(byte as char),
                _ => return self.fail("a wrong character in a string"),
            }
        }
    }

    fn list<T>(
        &mut self,
        item: impl Fn(&mut Self) -> Result<T, InvalidReceipt>,
    ) -> Result<Vec<T>, InvalidReceipt> {
        self.expect(b'(', "`(` is missing")?;
        let mut items = Vec::new();
        loop {
            self.spaces();
            if self.peek() == Some(b')') {
                self.at += 1;
                return Ok(items);
            }
            items.push(item(self)?);
        }
    }

    fn service(&mut self) -> Result<ServiceName, InvalidReceipt> {
        let name = self.string()?;
        ServiceName::new(&name).or_else(|_| self.fail("a wrong service name"))
    }

    /// Reads over what follows a key that is not known: nothing, an item or a list of items, with parameters.
    fn rest_of_member(&mut self) -> Result<(), InvalidReceipt> {
        if self.peek() != Some(b'=') {
            return self.parameters();
        }
        self.at += 1;
        if self.peek() == Some(b'(') {
            self.list(|reader| reader.item().and_then(|()| reader.parameters()))?;
        } else {
            self.item()?;
        }
        self.parameters()
    }

    fn parameters(&mut self) -> Result<(), InvalidReceipt> {
        while self.peek() == Some(b';') {
            self.at += 1;
            self.token()?;
            self.rest_of_parameter()?;
        }
        Ok(())
    }

    fn rest_of_parameter(&mut self) -> Result<(), InvalidReceipt> {
        if self.peek() != Some(b'=') {
            return Ok(());
        }
        self.at += 1;
        self.item()
    }

    fn item(&mut self) -> Result<(), InvalidReceipt> {
        match self.peek() {
            Some(b'"') => self.string().map(drop),
            Some(b'?') => self.boolean().map(drop),
            // Bytes, in base64 between colons.
            Some(b':') => {
                self.at += 1;
                while self.peek().is_some_and(|b| b != b':') {
                    self.at += 1;
                }
                self.expect(b':', "bytes are not closed")
            }
            _ => self.token().map(drop),
        }
    }

    fn visit(&mut self) -> Result<Visit, InvalidReceipt> {
        let site = self.string()?;
        let Ok(site) = SiteName::new(&site) else {
            return self.fail("a wrong site name");
        };
        let mut visit = Visit {
            site,
            service: None,
            outcome: Outcome::Unknown,
            status: None,
            error: None,
            items: None,
        };
        while self.peek() == Some(b';') {
            self.at += 1;
            let key = self.token()?;
            if PARAMETERS.contains(&key) {
                self.expect(b'=', "`=` is missing")?;
            }
            match key {
                "service" => visit.service = Some(self.service()?),
                // An outcome that only a newer agent knows is not known here.
                "outcome" => {
                    let outcome = Outcome::from_token(self.token()?);
                    visit.outcome = outcome.unwrap_or(Outcome::Unknown);
                }
                "status" => visit.status = Some(self.number()?),
                "error" => visit.error = Some(self.string()?),
                "items" => visit.items = Some(self.number()?),
                _ => self.rest_of_parameter()?,
            }
        }
        Ok(visit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_formatting_would() {
        for number in 0..=u16::MAX {
            let mut text = String::new();
            push_number(&mut text, number);
            assert_eq!(text, number.to_string());
        }
    }

    fn site(name: &str) -> SiteName {
        SiteName::new(name).unwrap()
    }

    #[test]
    fn prints_and_reads_back() {
        let mut receipt = Receipt::new(PlanKind::Gather, vec![Visit::executed(&site("paris"), 200)]);
        receipt.sites[0].items = Some(3);
        receipt.sites.push(Visit::failed(
            &site("1"),
            Outcome::NotExecuted,
            "a \"quoted\" \\ thing",
        ));
        receipt.workflow.push(Visit {
            service: Some(ServiceName::new("B").unwrap()),
            ..Visit::executed(&site("nantes"), 201)
        });
        receipt.complete = false;
        receipt.operation = Some("op-1".into());
        let text = receipt.to_header();
        assert_eq!(
            text,
            r#"plan=gather, complete=?0, sites=("paris";outcome=executed;status=200;items=3 "1";outcome=not-executed;error="a \"quoted\" \\ thing"), workflow=("nantes";service="B";outcome=executed;status=201), operation="op-1""#
        );
        assert_eq!(Receipt::parse(&text), Ok(receipt));
    }

    #[test]
    fn a_write_to_a_replica_set_reads_back() {
        let mut receipt = Receipt::new(PlanKind::Replicate, vec![Visit::executed(&site("paris"), 201)]);
        receipt
            .sites
            .push(Visit::failed(&site("rome"), Outcome::Pending, "blocked"));
        receipt.operation = Some("paris.7.0.1".into());
        receipt.set = Some("72".into());
        receipt.held = Some(1);
        let text = receipt.to_header();
        assert_eq!(
            text,
            r#"plan=replicate, sites=("paris";outcome=executed;status=201 "rome";outcome=pending;error="blocked"), operation="paris.7.0.1", set="72", held=1"#
        );
        assert_eq!(Receipt::parse(&text), Ok(receipt));
    }

    #[test]
    fn what_a_newer_agent_says_besides_is_read_over() {
        let known = r#"plan=forward, sites=("rome";outcome=executed;status=200)"#;
        let newer = r#"cost=12;unit="ms", plan=forward, via=("a";x "b";y=?1), fresh, sites=("rome";outcome=executed;took=3;cached;by=:aGk=:;status=200)"#;
        assert_eq!(Receipt::parse(newer), Receipt::parse(known));
        // What happened is not guessed.
        let strange =
            Receipt::parse(r#"plan=teleport, sites=("rome";outcome=half-done;status=200)"#).unwrap();
        assert_eq!(strange.sites[0].outcome, Outcome::Unknown);
    }

    #[test]
    fn services_that_no_call_reached_read_back() {
        let mut receipt = Receipt::new(PlanKind::Local, vec![Visit::executed(&site("paris"), 200)]);
        receipt.unused = ["B", "C"].map(|name| ServiceName::new(name).unwrap()).to_vec();
        let text = receipt.to_header();
        assert_eq!(
            text,
            r#"plan=local, sites=("paris";outcome=executed;status=200), unused=("B" "C")"#
        );
        assert_eq!(Receipt::parse(&text), Ok(receipt));
    }

    #[test]
    fn refuses_what_is_not_a_receipt() {
        for text in [
            "",
            "plan",
            "plan=",
            "sites=()",
            "plan=local, sites=(",
            "plan=local, sites=(\"a",
            "plan=local,",
        ] {
            assert!(Receipt::parse(text).is_err(), "{text}");
        }
    }
}
