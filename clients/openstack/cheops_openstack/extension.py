"""The extension of the `openstack` command: a global option --scope.

It adds no service and no command. Where no scope is given, nothing changes.
"""

import argparse
import functools
import os
import sys

from keystoneauth1 import session as keystone

from cheops_openstack.session import attach

# What the command asks of every extension.
API_NAME = "cheops_scope"
API_VERSION_OPTION = "os_cheops_scope_api_version"
DEFAULT_API_VERSION = "1"
API_VERSIONS = {"1": None}


def take_scope(environment):
    """The scope that the environment gives.

    OS_SCOPE is taken out of it: the SDK reads every OS_* variable, and formats its text, in which braces would
    mean something else.
    """
    name, scope = "OS_SCOPE", environment.pop("OS_SCOPE", None)
    if scope is None:
        name, scope = "CHEOPS_SCOPE", environment.get("CHEOPS_SCOPE", "")
    try:
        return checked(scope)
    except argparse.ArgumentTypeError as error:
        # An extension that cannot be loaded is skipped, and the command would run without its scope.
        sys.exit(f"error: {name}: {error}")


def checked(scope):
    scope = scope.strip()
    if not scope.isprintable() or not scope.isascii():
        raise argparse.ArgumentTypeError("a scope is one line of letters, digits and signs")
    return scope


class Scope:
    """The scope of this command line; empty: none."""

    def __init__(self):
        self.text = ""


chosen = Scope()


class Choose(argparse.Action):
    """Keeps the scope out of the parsed options, for the same reason as OS_SCOPE."""

    def __call__(self, parser, namespace, values, option_string=None):
        try:
            chosen.text = checked(values)
        except argparse.ArgumentTypeError as error:
            raise argparse.ArgumentError(self, str(error))


def build_option_parser(parser):
    """Called once, before the command line is read."""
    parser.add_argument(
        "--scope",
        metavar="<scope>",
        action=Choose,
        dest=argparse.SUPPRESS,
        default=argparse.SUPPRESS,
        help="Where the requests run, e.g. 'compute: Site1, image: Site2' (Env: OS_SCOPE, CHEOPS_SCOPE)",
    )
    return parser


def make_client(_instance):
    """There is no service behind this extension."""
    return None


def install(session_class):
    """From now on every session is made with the scope that is chosen by then."""
    make = session_class.__init__

    @functools.wraps(make)
    def make_with_scope(self, *args, **kwargs):
        make(self, *args, **kwargs)
        if chosen.text:
            attach(self, chosen.text)

    session_class.__init__ = make_with_scope


# The command imports its extensions before it reads the environment and the command line.
chosen.text = take_scope(os.environ)
install(keystone.Session)
