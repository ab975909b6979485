"""One verb each: typed values in, typed values out. Stages never print and never exit."""
