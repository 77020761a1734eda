//! How the glue describes lists.

use toml::de::DeValue;

use super::{
    resources::read_pointer,
    section::{At, Section},
};
use crate::{Column, Form, GlueError, Items, ListShape, NextStyle, Paging, Pointer, Watch, json};

pub(super) fn read(resource: &Section<'_>) -> Result<ListShape, GlueError> {
    let plain = ListShape::plain(Items::Presumed);
    let Some(value) = resource.get("list") else {
        return Ok(plain);
    };
    let DeValue::Table(table) = value.get_ref() else {
        return Err(resource.wrong_type("list", value, "a table", value.get_ref()));
    };
    let known = [
        "items",
        "document",
        "forms",
        "paging",
        "sort",
        "provenance",
        "watch",
    ];
    let list = Section::open(resource.source, "list", table, value.span(), &known)?;
    let items = match read_pointer(&list, "items")? {
        Some(pointer) => Items::At(pointer.value),
        None => plain.items,
    };
    let sort = read_pointer(&list, "sort")?;
    if let Some(sort) = sort.as_ref().filter(|sort| sort.value.is_root()) {
        return Err(list
            .source
            .error(&sort.span, "`sort` must name a member of each item")
            .fix("write `sort = \"/created\"`, or remove it"));
    }
    let provenance = match list.text("provenance")? {
        Some(text) if text.value.is_empty() => None,
        Some(text) if text.value.starts_with('/') => read_pointer(&list, "provenance")?.map(|at| at.value),
        Some(text) => Some(Pointer::to_member(text.value)),
        None => plain.provenance,
    };
    let document = read_pointer(&list, "document")?;
    Ok(ListShape {
        document: document.map_or(plain.document, |at| at.value),
        paging: read_paging(&list, &items)?,
        forms: read_forms(&list, &items)?,
        items,
        sort: sort.map(|sort| sort.value),
        provenance,
        watch: read_watch(&list)?,
    })
}

fn read_watch(list: &Section<'_>) -> Result<Option<Watch>, GlueError> {
    let Some(value) = list.get("watch") else {
        return Ok(None);
    };
    let DeValue::Table(table) = value.get_ref() else {
        return Err(list
            .wrong_type("watch", value, "a table", value.get_ref())
            .fix("write `{ parameter = \"version\", version = \"/version\", object = \"/object\" }`"));
    };
    let known = ["parameter", "version", "object"];
    let watch = Section::open(list.source, "`watch`", table, value.span(), &known)?;
    let pointer = |key| read_pointer(&watch, key)?.ok_or_else(|| watch.missing(key));
    let parameter = watch.required_text("parameter")?;
    check_parameter(&watch, &parameter)?;
    Ok(Some(Watch {
        parameter: parameter.value.to_owned(),
        version: pointer("version")?.value,
        object: pointer("object")?.value,
    }))
}

fn read_forms(list: &Section<'_>, items: &Items) -> Result<Vec<Form>, GlueError> {
    let known = ["items", "document", "columns", "cells", "column"];
    let mut forms: Vec<Form> = Vec::new();
    for form in list.sections("forms", &known)? {
        let place = read_pointer(&form, "items")?.ok_or_else(|| form.missing("items"))?;
        let is_known = matches!(items, Items::At(usual) if *usual == place.value)
            || forms.iter().any(|other| other.items == place.value);
        if is_known {
            return Err(list
                .source
                .error(&place.span, "another form has its items there")
                .fix("forms are told apart by where their items are"));
        }
        let document = read_pointer(&form, "document")?;
        forms.push(Form {
            items: place.value,
            document: document.map_or_else(Pointer::root, |at| at.value),
            column: read_column(&form)?,
        });
    }
    Ok(forms)
}

fn read_column(form: &Section<'_>) -> Result<Option<Column>, GlueError> {
    let keys = ["columns", "cells", "column"];
    if form.first_own(&keys).is_none() {
        return Ok(None);
    }
    let pointer = |key| read_pointer(form, key)?.ok_or_else(|| form.missing(key));
    let definition = form.required_text("column")?;
    if let Err(error) = json::read(definition.value) {
        return Err(form
            .source
            .error(&definition.span, format!("`column` is not JSON: {error}"))
            .fix("write the definition of a column as the application does, in single quotes"));
    }
    Ok(Some(Column {
        definitions: pointer("columns")?.value,
        cells: pointer("cells")?.value,
        definition: definition.value.to_owned(),
    }))
}

fn read_paging(list: &Section<'_>, items: &Items) -> Result<Option<Paging>, GlueError> {
    let Some(value) = list.get("paging") else {
        return Ok(None);
    };
    let table = match value.get_ref() {
        DeValue::String(word) if word == "none" => return Ok(None),
        DeValue::Table(table) => table,
        other => {
            return Err(list
                .wrong_type("paging", value, "a table or `\"none\"`", other)
                .fix("write `{ style = \"token\", limit = \"limit\", token = \"page_token\", next = \"/next\" }`"));
        }
    };
    let known = ["style", "limit", "token", "next"];
    let paging = Section::open(list.source, "paging", table, value.span(), &known)?;
    let styles = [
        ("token", NextStyle::Token),
        ("link", NextStyle::Link),
        ("links", NextStyle::Links),
    ];
    let style = paging
        .word("style", &styles)?
        .ok_or_else(|| paging.missing("style"))?;
    let limit = read_parameter(&paging, "limit")?;
    let token = read_parameter(&paging, "token")?.ok_or_else(|| paging.missing("token"))?;
    if limit.as_ref().is_some_and(|limit| limit.value == token.value) {
        return Err(list
            .source
            .error(&token.span, "`limit` and `token` name the same parameter"));
    }
    let next = read_pointer(&paging, "next")?.ok_or_else(|| paging.missing("next"))?;
    let Items::At(items) = items else {
        return Err(list
            .source
            .error(&list.span, "a list that is paged must say where its items are")
            .fix("add `items = \"/items\"`"));
    };
    if items.contains(&next.value) || next.value.contains(items) {
        return Err(list
            .source
            .error(
                &next.span,
                "the next page cannot be told inside the items, nor around them",
            )
            .fix("point `next` at a member beside the items, or write `paging = \"none\"`"));
    }
    Ok(Some(Paging {
        style: style.value,
        limit: limit.map(|limit| limit.value.to_owned()),
        token: token.value.to_owned(),
        next: next.value,
    }))
}

/// The name of a query parameter.
pub(super) fn read_parameter<'t>(paging: &Section<'t>, key: &str) -> Result<Option<At<&'t str>>, GlueError> {
    let Some(name) = paging.text(key)? else {
        return Ok(None);
    };
    check_parameter(paging, &name)?;
    Ok(Some(name))
}

pub(super) fn check_parameter(section: &Section<'_>, name: &At<&str>) -> Result<(), GlueError> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b'~' | b'$');
    if name.value.is_empty() || !name.value.bytes().all(plain) {
        let message = format!("`{}` is not the name of a query parameter", name.value);
        return Err(section
            .source
            .error(&name.span, message)
            .fix("use letters, digits, `-`, `.`, `_`, `~` or `$`"));
    }
    Ok(())
}
