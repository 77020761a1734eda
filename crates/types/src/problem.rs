//! An error as users see it: `application/problem+json` (RFC 9457).

use serde_json::{Map, Value, json};

use crate::{Code, ServiceName, SiteName};

/// One error answer: who, what happened and what to do.
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    pub code: Code,
    /// One sentence about this occurrence that says what to do, if anything can be done.
    pub detail: String,
    /// The site that the problem is about.
    pub site: Option<SiteName>,
    /// The service that the problem is about.
    pub service: Option<ServiceName>,
    /// Further members, e.g. the position in a scope.
    pub members: Vec<(&'static str, Value)>,
}

impl Problem {
    pub const CONTENT_TYPE: &str = "application/problem+json";

    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self {
            code,
            detail: detail.into(),
            site: None,
            service: None,
            members: Vec::new(),
        }
    }

    pub fn at(mut self, site: &SiteName) -> Self {
        self.site = Some(site.clone());
        self
    }

    pub fn of(mut self, service: &ServiceName) -> Self {
        self.service = Some(service.clone());
        self
    }

    pub fn with(mut self, member: &'static str, value: impl Into<Value>) -> Self {
        self.members.push((member, value.into()));
        self
    }

    pub fn status(&self) -> u16 {
        self.code.status()
    }

    pub fn to_json(&self) -> Value {
        let mut object = Map::new();
        object.insert("type".into(), json!(format!("urn:cheops:error:{}", self.code)));
        object.insert("title".into(), json!(self.code.title()));
        object.insert("status".into(), json!(self.code.status()));
        object.insert("code".into(), json!(self.code.as_str()));
        object.insert("detail".into(), json!(self.detail));
        if let Some(site) = &self.site {
            object.insert("site".into(), json!(site));
        }
        if let Some(service) = &self.service {
            object.insert("service".into(), json!(service));
        }
        for (name, value) in &self.members {
            object.insert((*name).into(), value.clone());
        }
        Value::Object(object)
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        let mut text = serde_json::to_vec_pretty(&self.to_json()).unwrap_or_default();
        text.push(b'\n');
        text
    }
}
