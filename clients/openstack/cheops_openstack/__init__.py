"""Scopes for OpenStack's Python clients."""

from cheops_openstack.problem import ScopeRefused
from cheops_openstack.session import SCOPE_HEADER, attach

__all__ = ["SCOPE_HEADER", "ScopeRefused", "attach"]
