//! The rights of root that no command needs.

use rustix::thread::{
    CapabilitySet, capabilities, remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};

/// Returns the rights that root may keep: those over files and users.
fn harmless() -> CapabilitySet {
    CapabilitySet::CHOWN
        | CapabilitySet::DAC_OVERRIDE
        | CapabilitySet::FOWNER
        | CapabilitySet::FSETID
        | CapabilitySet::KILL
        | CapabilitySet::SETGID
        | CapabilitySet::SETUID
        | CapabilitySet::NET_BIND_SERVICE
}

/// Checks whether this thread may set up namespaces on its own.
pub(super) fn may_set_up_namespaces() -> bool {
    capabilities(None).is_ok_and(|own| own.effective.contains(CapabilitySet::SYS_ADMIN))
}

/// Drops every other right for this thread and all that it starts: no setuid program and no exec restores it.
pub(super) fn drop_dangerous() {
    // Where the kernel refuses one of these, the right was not there.
    let _ = set_no_new_privs(true);
    for number in 0..64 {
        let one = CapabilitySet::from_bits_retain(1 << number);
        if !harmless().contains(one) {
            let _ = remove_capability_from_bounding_set(one);
        }
    }
    if let Ok(mut own) = capabilities(None) {
        own.effective &= harmless();
        own.permitted &= harmless();
        own.inheritable = CapabilitySet::empty();
        let _ = set_capabilities(None, own);
    }
}
