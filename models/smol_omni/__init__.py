"""`smol-omni`: a checkpoint of 146 million parameters, put together on the user's machine.

The language model of one package and the encoder of another, both as they are, and adapters that ship here,
in the layout of Qwen2.5-Omni. Numpy does all of it: neither torch nor transformers is needed.
"""
