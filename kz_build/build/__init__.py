"""Building a target: plan, engines, containers, reproduction, patched wheels."""
