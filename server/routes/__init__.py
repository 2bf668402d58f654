"""Endpoints, one file each. A handler reads, validates and hands over; it computes nothing itself."""
