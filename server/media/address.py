"""Which network addresses media may be fetched from: public ones only."""

import ipaddress

_NEVER = [
    ipaddress.ip_network(network)
    for network in [
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.31.196.0/24",
        "192.52.193.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "192.175.48.0/24",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
    ]
]
_GLOBAL_UNICAST = ipaddress.ip_network("2000::/3")
_NEVER_6 = [
    ipaddress.ip_network(network)
    for network in ["2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20"]
]


def is_public(address: str) -> bool:
    """Whether an IPv4 or IPv6 address, as a resolver gives it, is one of the public internet.

    IPv6 outside global unicast is refused altogether: among it are loopback, link-local and unique-local
    addresses, and every form that carries an IPv4 address within (mapped, translated); so are the tunnels
    6to4 and Teredo.
    """
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(parsed, ipaddress.IPv4Address):
        return not any(parsed in network for network in _NEVER)
    return parsed in _GLOBAL_UNICAST and not parsed.scope_id and not any(parsed in net for net in _NEVER_6)
