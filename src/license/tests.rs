use super::*;

const MIT: &str = "Copyright (c) 2024 A. Person\n\nPermission is hereby granted, free of charge, to any person obtaining a copy\nof this software, to deal in it without restriction, provided that the above copyright notice and this\npermission notice are included in all copies.\n\nTHE SOFTWARE IS PROVIDED \"AS IS\".";
const APACHE: &str =
    "Apache License\nVersion 2.0, January 2004\n\n2. Grant of Copyright License. …\n4. Redistribution. …";
const BSD: &str = "Copyright (c) 2020, B\nAll rights reserved.\n\nRedistribution and use in source and binary forms are permitted …\n* Redistributions in binary form must reproduce the notice.\n";
const GPL3: &str = "GNU GENERAL PUBLIC LICENSE\nVersion 3, 29 June 2007\nEveryone is permitted to copy and distribute verbatim copies\nof this license document … proprietary programs … either version 3 or any later version … use the GNU Lesser General Public License instead";

fn one(path: &str, text: &str) -> (LicenseTier, Option<String>) {
    let verdict = from_texts(&[(path, text)]);
    assert_eq!(verdict.evidence.len(), usize::from(FileName::of(path).is_some()));
    (verdict.tier, verdict.expression)
}

fn named(tier: LicenseTier, expression: &str) -> (LicenseTier, Option<String>) {
    (tier, Some(expression.to_owned()))
}

#[test]
fn standard_texts_are_told_apart() {
    use LicenseTier::{Permissive, Strong, Weak};
    let bsd3 = format!(
        "{BSD}* The name may not be used to endorse or promote products without specific prior written permission."
    );
    let lgpl =
        "GNU LESSER GENERAL PUBLIC LICENSE\nVersion 2.1, February 1999\nverbatim copies of this license document";
    let isc = "Permission to use, copy, modify, and/or distribute this software for any purpose is granted, provided that the notice appear in all copies. The author disclaims all warranties.";
    let zero = "Permission to use, copy, modify, and/or distribute this software for any purpose is granted. The author disclaims all warranties.";
    for (text, expected) in [
        (MIT, named(Permissive, "MIT")),
        (APACHE, named(Permissive, "Apache-2.0")),
        (BSD, named(Permissive, "BSD-2-Clause")),
        (&bsd3, named(Permissive, "BSD-3-Clause")),
        (isc, named(Permissive, "ISC")),
        (zero, named(Permissive, "0BSD")),
        ("This is free and unencumbered software released into the public domain.", named(Permissive, "Unlicense")),
        ("Creative Commons Legal Code\nCC0 1.0 Universal", named(Permissive, "CC0-1.0")),
        ("Creative Commons Attribution 4.0 International Public License", named(Permissive, "CC-BY-4.0")),
        ("Creative Commons Attribution-ShareAlike 4.0 International", named(Strong, "CC-BY-SA-4.0")),
        (GPL3, named(Strong, "GPL-3.0-only")),
        ("GNU AFFERO GENERAL PUBLIC LICENSE Version 3, 19 November 2007", named(Strong, "AGPL-3.0-only")),
        (lgpl, named(Weak, "LGPL-2.1-only")),
        ("Mozilla Public License Version 2.0\n1.4. \"Covered Software\"", named(Weak, "MPL-2.0")),
        ("Eclipse Public License - v 2.0\n\"Contributor\"", named(Weak, "EPL-2.0")),
        (
            "This program is under the GNU General Public License, version 2, or (at your option) any later version.",
            named(Strong, "GPL-2.0-or-later"),
        ),
    ] {
        assert_eq!(one("LICENSE", text), expected, "{text}");
    }
}

#[test]
fn a_reworded_or_shortened_mit_is_still_mit_and_a_bare_title_is_not() {
    let reworded = MIT
        .replace("A. Person", "The Widget Authors <https://example.com>")
        .replace("deal in it", "use it as they like");
    assert_eq!(
        one("LICENSE.md", &format!("# The MIT License (MIT)\n\n{reworded}")),
        named(LicenseTier::Permissive, "MIT")
    );
    let shortened = MIT.split("THE SOFTWARE").next().unwrap();
    assert_eq!(one("LICENCE", shortened), named(LicenseTier::Permissive, "MIT"));
    assert_eq!(one("LICENSE", "MIT License\n\nCopyright (c) 2025 X"), (LicenseTier::Custom, None));
    assert_eq!(one("LICENSE", "Licensed under the MIT License."), named(LicenseTier::Permissive, "MIT"));
}

#[test]
fn a_choice_of_licences_is_one() {
    let both = from_texts(&[("LICENSE-MIT", MIT), ("LICENSE-APACHE", APACHE)]);
    assert_eq!((both.tier, both.expression.as_deref()), (LicenseTier::Permissive, Some("Apache-2.0 OR MIT")));
    let together = format!("Licensed under MIT OR Apache-2.0\n\n{MIT}\n\n{APACHE}");
    assert_eq!(one("LICENSE", &together), named(LicenseTier::Permissive, "Apache-2.0 OR MIT"));
    let with_gpl = from_texts(&[("LICENSE-MIT", MIT), ("LICENSE-GPL", GPL3)]);
    assert_eq!(with_gpl.tier, LicenseTier::Permissive);
    let lesser = "GNU LESSER GENERAL PUBLIC LICENSE Version 3, 29 June 2007";
    assert_eq!(from_texts(&[("COPYING", GPL3), ("COPYING.LESSER", lesser)]).tier, LicenseTier::Weak);
}

#[test]
fn two_plain_files_both_apply() {
    let verdict = from_texts(&[("LICENSE", MIT), ("COPYING", GPL3)]);
    assert_eq!((verdict.tier, verdict.conflict), (LicenseTier::Strong, true));
    assert_eq!(verdict.expression.as_deref(), Some("GPL-3.0-only AND MIT"));
}

#[test]
fn what_takes_rights_away_outweighs_what_grants_them() {
    for (why, text) in [
        (
            "quoted",
            format!(
                "Widget Software License. Proprietary and confidential. Parts come from others under this notice:\n\n{MIT}"
            ),
        ),
        (
            "quoted",
            format!("Copyright X. No part of this repository may be used without permission. Third parties:\n{MIT}"),
        ),
        ("clause", format!("\"Commons Clause\" License Condition v1.0\n\n{MIT}")),
        ("clause", format!("{APACHE}\n\nThe Licensor does not grant you the right to Sell the Software.")),
        ("source", "Business Source License 1.1\nChange License: GNU General Public License version 2".to_owned()),
        ("elastic", format!("Elastic License 2.0\n{APACHE}")),
        (
            "open core",
            format!("Portions of this software are licensed as follows: ee/ is under ee/LICENSE, the rest:\n{MIT}"),
        ),
        ("creative", "Creative Commons Attribution-NonCommercial 4.0 International".to_owned()),
        ("creative", "Creative Commons Attribution-NoDerivatives 4.0 International".to_owned()),
        ("commercial", format!("{MIT}\nCommercial use requires a separate agreement.")),
        ("reserved", "Copyright (c) 2025 Example Ltd. All rights reserved.".to_owned()),
        ("unknown", "You can use this if you water my plants.".to_owned()),
    ] {
        assert_eq!(one("LICENSE", &text), (LicenseTier::Custom, None), "{why}: {text}");
    }
}

#[test]
fn nothing_is_concluded_from_folders_manifests_pointers_or_absence() {
    assert_eq!(one("packages/core/LICENSE", MIT), (LicenseTier::None, None));
    assert_eq!(one("LICENSES/MIT.txt", MIT), (LicenseTier::None, None));
    assert_eq!(one("package.json", "{\"license\": \"SEE LICENSE IN LICENSE.md\"}"), (LicenseTier::None, None));
    assert_eq!(one("LICENSE-3rdparty.csv", MIT), (LicenseTier::None, None));
    assert_eq!(one("LICENSE-docs", MIT), (LicenseTier::None, None));
    assert_eq!(one("LICENSE", "See LICENSE in package.json"), (LicenseTier::None, None));
    assert_eq!(one("LICENSE", " \n"), (LicenseTier::None, None));
    assert_eq!(from_texts::<&str, &str>(&[]).tier, LicenseTier::None);
    assert_eq!(from_api(None).tier, LicenseTier::None);
}

#[test]
fn api_values_have_tiers() {
    for (id, tier) in [
        ("MIT", LicenseTier::Permissive),
        ("0BSD", LicenseTier::Permissive),
        ("CC-BY-4.0", LicenseTier::Permissive),
        ("LGPL-3.0", LicenseTier::Weak),
        ("MPL-2.0", LicenseTier::Weak),
        ("GPL-3.0", LicenseTier::Strong),
        ("AGPL-3.0-or-later", LicenseTier::Strong),
        ("GPL-2.0-only WITH Classpath-exception-2.0", LicenseTier::Weak),
        ("MIT OR GPL-3.0-only", LicenseTier::Permissive),
        ("MIT AND GPL-3.0-only", LicenseTier::Strong),
        ("CC-BY-NC-4.0", LicenseTier::Custom),
        ("BUSL-1.1", LicenseTier::Custom),
        ("Elastic-2.0", LicenseTier::Custom),
        ("SSPL-1.0", LicenseTier::Custom),
        ("NOASSERTION", LicenseTier::Custom),
        ("Other", LicenseTier::Custom),
        ("", LicenseTier::None),
    ] {
        assert_eq!(from_api(Some(id)).tier, tier, "{id}");
    }
}

#[test]
fn files_refine_the_api_and_the_stricter_of_two_is_followed() {
    let files = |text: &str| from_texts(&[("LICENSE", text)]);
    let dual = combine(from_api(Some("Apache-2.0")), from_texts(&[("LICENSE-MIT", MIT), ("LICENSE-APACHE", APACHE)]));
    assert_eq!((dual.expression.as_deref(), dual.conflict), (Some("Apache-2.0 OR MIT"), false));
    let restricted = combine(from_api(Some("MIT")), files(&format!("Commons Clause\n{MIT}")));
    assert_eq!((restricted.tier, restricted.conflict), (LicenseTier::Custom, true));
    let unread = combine(from_api(Some("NOASSERTION")), files(MIT));
    assert_eq!((unread.tier, unread.evidence.len()), (LicenseTier::Permissive, 2));
    let same = combine(from_api(Some("GPL-3.0")), files(GPL3));
    assert_eq!((same.tier, same.conflict), (LicenseTier::Strong, false));
    let known_to_github =
        combine(from_api(Some("PostgreSQL")), files("Permission to use it is granted, said the elephant."));
    assert_eq!((known_to_github.tier, known_to_github.conflict), (LicenseTier::Permissive, false));
    let differing = combine(from_api(Some("GPL-3.0")), files(MIT));
    assert_eq!((differing.tier, differing.conflict), (LicenseTier::Strong, true));
    assert_eq!(combine(from_api(Some("MIT")), from_texts::<&str, &str>(&[])).tier, LicenseTier::Permissive);
}
