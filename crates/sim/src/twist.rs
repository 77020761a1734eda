//! What schedules have besides the dice of [`crate::Plan`], from dice of their own.
//!
//! Schedules without twists are what they always were, so that seeds that once failed can still be played.

use cheops_replica::Recognise;

use crate::{Plan, Rng, Twists};

impl Twists {
    pub fn of(seed: u64, plan: &mut Plan) -> Self {
        const OWN_DICE: u64 = 0x7715_7E5C_4ED0_1E5A;
        let mut rng = Rng::new(seed ^ OWN_DICE);
        let some = |rng: &mut Rng, per_mille, value| if rng.chance(per_mille) { value } else { 0 };
        let twists = Self {
            named: rng.chance(300),
            meddles: if rng.chance(80) { 1 + rng.index(2) } else { 0 },
            promised: some(&mut rng, 150, 200),
            conditional: some(&mut rng, 150, 300),
            recast: some(&mut rng, 150, 300),
            odd: rng.chance(150),
            slow: rng.chance(100).then(|| rng.index(plan.sites)),
            lying_disk: rng.chance(400),
            meddlesome_operators: if rng.chance(150) { 1 + rng.index(4) } else { 0 },
            spooled: some(&mut rng, 120, 400),
        };
        if twists.named {
            // A name alone proves nothing; what contains others is made again as another set.
            if plan.recognise == Recognise::ChosenId {
                plan.recognise = Recognise::Marker;
            }
            plan.family = false;
            plan.adopts = 0;
            plan.deletes = 150;
        }
        twists
    }
}
