//! Which part of a range of integers each site draws meta-ids from: its name decides unless the file does.

use std::collections::BTreeMap;

use cheops_types::{SiteName, Slot};

use super::{
    ConfigError,
    table::{Field, Table},
};

/// A site with its slot, where a message about it points.
pub(super) type Placed = Field<(SiteName, Slot)>;

/// The slot of a site, whose name is in `name` and whose keys are in `table`.
pub(super) fn read(name: &Field<SiteName>, table: &Table<'_>, errors: &mut Vec<ConfigError>) -> Placed {
    let by_name = || name.with((name.value.clone(), Slot::by_name(&name.value)));
    let Some(field) = table.integer("slot", errors) else {
        return by_name();
    };
    let Some(slot) = Slot::new(field.value) else {
        let last = Slot::COUNT - 1;
        errors.push(field.error(
            format!("there is no slot {}", field.value),
            format!("write a number from 0 to {last} that no other site has"),
        ));
        return by_name();
    };
    field.with((name.value.clone(), slot))
}

/// Two sites with one slot would draw the same integers while they cannot ask each other.
pub(super) fn check<'p>(sites: impl IntoIterator<Item = &'p Placed>, errors: &mut Vec<ConfigError>) {
    let mut taken: BTreeMap<Slot, &SiteName> = BTreeMap::new();
    let mut shared = Vec::new();
    for placed in sites {
        let (site, slot) = &placed.value;
        match taken.get(slot) {
            Some(other) => shared.push((placed, *other)),
            None => drop(taken.insert(*slot, site)),
        }
    }
    for (placed, other) in shared {
        let (site, slot) = &placed.value;
        let free = (0..Slot::COUNT)
            .filter_map(Slot::new)
            .find(|slot| !taken.contains_key(slot));
        let fix = match free {
            Some(free) => {
                taken.insert(free, site);
                format!(
                    "write `slot = {}` in [sites.{site}] in every site's file, and at the top of the file of `{site}`",
                    free.number()
                )
            }
            None => "there are no more slots: a mesh has no more sites than that".to_owned(),
        };
        errors.push(placed.error(
            format!(
                "`{site}` and `{other}` both have slot {}: they would give out the same integers as meta-ids",
                slot.number()
            ),
            fix,
        ));
    }
}
