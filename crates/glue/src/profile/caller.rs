//! What the glue says about callers: `caller`, `stand-in` and `error-message` of a service.

use toml::de::DeValue;

use super::{
    compile::read_header,
    resources::read_pointer,
    section::{At, Section},
};
use crate::{
    CallerRules, Certificate, GlueError, Impersonate, Pointer, StandIn, Verify,
    caller::{Access, CREDENTIAL},
    selector::Selector,
};

/// The keys of a service that are read here.
pub(super) const KEYS: [&str; 3] = ["caller", "stand-in", "error-message"];

pub(super) fn read(service: &Section<'_>) -> Result<Access, GlueError> {
    let caller = inner(
        service,
        "caller",
        &["verify", "impersonate", "privileged", "certificate"],
    )?;
    let stand_in = inner(service, "stand-in", &["obtain", "beside"])?;
    Ok(Access {
        caller: caller.as_ref().map(read_caller).transpose()?,
        stand_in: stand_in.as_ref().map(read_stand_in).transpose()?,
        error_message: read_error_message(service)?,
    })
}

fn read_caller(caller: &Section<'_>) -> Result<CallerRules, GlueError> {
    let verify = inner(
        caller,
        "verify",
        &["request", "from", "scheme", "body", "valid", "user", "groups"],
    )?;
    let impersonate = inner(caller, "impersonate", &["user", "group", "implied-groups"])?;
    let certificate = inner(caller, "certificate", &["user", "group", "strip"])?;
    let mut privileged = Vec::new();
    for prefix in caller.texts("privileged")? {
        if prefix.value.is_empty() {
            return Err(caller
                .source
                .error(&prefix.span, "every name begins with nothing")
                .fix("write how the names of privileged users and groups begin, or leave it out"));
        }
        privileged.push(prefix.value.to_owned());
    }
    Ok(CallerRules {
        verify: verify.as_ref().map(read_verify).transpose()?,
        impersonate: impersonate.as_ref().map(read_impersonate).transpose()?,
        certificate: certificate.as_ref().map(read_certificate).transpose()?,
        privileged,
    })
}

fn read_verify(verify: &Section<'_>) -> Result<Verify, GlueError> {
    let (method, path) = read_request(verify)?;
    let body = verify.text("body")?;
    if let Some(body) = &body {
        check_question(verify, body)?;
    }
    let scheme = verify.text("scheme")?;
    if let Some(scheme) = scheme.as_ref().filter(|scheme| scheme.value.contains(' ')) {
        return Err(verify
            .source
            .error(&scheme.span, format!("`{}` is not one word", scheme.value))
            .fix("write what stands before the credential, as in `Bearer`"));
    }
    Ok(Verify {
        method,
        path,
        from: read_header(verify.source, &verify.required_text("from")?)?,
        scheme: scheme.map(|scheme| scheme.value.to_owned()),
        body: body.map(|body| body.value.to_owned()),
        valid: read_pointer(verify, "valid")?.map(|valid| valid.value),
        user: required_pointer(verify, "user")?,
        groups: read_pointer(verify, "groups")?.map(|groups| groups.value),
    })
}

/// A credential is put into a JSON text: there it must have its place, within quotes.
fn check_question(verify: &Section<'_>, body: &At<&str>) -> Result<(), GlueError> {
    let wrong = |message: String| {
        verify
            .source
            .error(&body.span, message)
            .fix("write JSON with one text that holds `{credential}`, as in `{\"token\":\"{credential}\"}`")
    };
    let document: serde_json::Value =
        serde_json::from_str(body.value).map_err(|error| wrong(format!("`body` is not JSON: {error}")))?;
    let places = texts_with(&document, CREDENTIAL);
    if places != 1 || body.value.matches(CREDENTIAL).count() != 1 {
        return Err(wrong(format!("`body` has {places} places for the credential")));
    }
    Ok(())
}

fn texts_with(value: &serde_json::Value, piece: &str) -> usize {
    match value {
        serde_json::Value::String(text) => text.matches(piece).count(),
        serde_json::Value::Array(elements) => elements.iter().map(|value| texts_with(value, piece)).sum(),
        serde_json::Value::Object(members) => members.values().map(|value| texts_with(value, piece)).sum(),
        _ => 0,
    }
}

fn read_impersonate(impersonate: &Section<'_>) -> Result<Impersonate, GlueError> {
    let (user, group) = read_names(impersonate)?;
    let implied = impersonate.texts("implied-groups")?;
    Ok(Impersonate {
        user,
        group,
        implied_groups: implied.iter().map(|group| group.value.to_owned()).collect(),
    })
}

fn read_certificate(certificate: &Section<'_>) -> Result<Certificate, GlueError> {
    let (user, group) = read_names(certificate)?;
    let mut strip = Vec::new();
    for prefix in certificate.texts("strip")? {
        strip.push(read_header(certificate.source, &prefix)?);
    }
    for name in [&user, &group] {
        // What a client could send itself would be believed.
        if !strip.iter().any(|prefix| name.starts_with(&**prefix)) {
            strip.push(name.clone());
        }
    }
    Ok(Certificate { user, group, strip })
}

fn read_names(section: &Section<'_>) -> Result<(String, String), GlueError> {
    let user = read_header(section.source, &section.required_text("user")?)?;
    let group = section.required_text("group")?;
    let group_name = read_header(section.source, &group)?;
    if group_name == user {
        return Err(section
            .source
            .error(&group.span, "users and groups cannot share a header")
            .fix("name the header that the application takes groups from"));
    }
    Ok((user, group_name))
}

fn read_stand_in(stand_in: &Section<'_>) -> Result<StandIn, GlueError> {
    let obtain = inner(stand_in, "obtain", &["request", "token", "expires"])?
        .ok_or_else(|| stand_in.missing("obtain"))?;
    let (method, path) = read_request(&obtain)?;
    Ok(StandIn {
        method,
        path,
        token: read_header(obtain.source, &obtain.required_text("token")?)?,
        expires: read_pointer(&obtain, "expires")?.map(|expires| expires.value),
        beside: read_header(stand_in.source, &stand_in.required_text("beside")?)?,
    })
}

fn read_error_message(service: &Section<'_>) -> Result<Vec<Selector>, GlueError> {
    let texts = match service.get("error-message").map(toml::Spanned::get_ref) {
        Some(DeValue::Array(_)) => service.texts("error-message")?,
        _ => service.text("error-message")?.into_iter().collect(),
    };
    let read = |text: &At<&str>| {
        Selector::parse(text.value).map_err(|error| service.source.error(&text.span, error.to_string()))
    };
    texts.iter().map(read).collect()
}

/// `METHOD /path`, without placeholders.
fn read_request(section: &Section<'_>) -> Result<(String, String), GlueError> {
    let request = section.required_text("request")?;
    let wrong = || {
        section
            .source
            .error(&request.span, format!("`{}` is not a request", request.value))
            .fix("write a method and a path without placeholders, as in `POST /tokens`")
    };
    let (method, path) = request.value.split_once(' ').ok_or_else(wrong)?;
    let is_path = path.starts_with('/') && path.bytes().all(|b| b.is_ascii_graphic() && !b"{}".contains(&b));
    let is_method = !method.is_empty() && method.bytes().all(|b| b.is_ascii_uppercase());
    if is_method && is_path {
        Ok((method.to_owned(), path.to_owned()))
    } else {
        Err(wrong())
    }
}

fn required_pointer(section: &Section<'_>, key: &str) -> Result<Pointer, GlueError> {
    let pointer = read_pointer(section, key)?.ok_or_else(|| section.missing(key))?;
    Ok(pointer.value)
}

/// A table within a table.
fn inner<'t>(outer: &Section<'t>, key: &str, known: &[&str]) -> Result<Option<Section<'t>>, GlueError> {
    let Some(value) = outer.get(key) else {
        return Ok(None);
    };
    match value.get_ref() {
        DeValue::Table(table) => {
            Section::open(outer.source, format!("`{key}`"), table, value.span(), known).map(Some)
        }
        other => Err(outer.wrong_type(key, value, "a table", other)),
    }
}
