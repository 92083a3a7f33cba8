"""What an ONNX model's run means: profiles, facts, budgets, baselines; pure values, no runtime and no pytest.

Read it in this order: `errors` (what can go wrong), `profile` (what a profile holds), `profile_json` (bytes to a
profile), `attribution` (which run a node belongs to), `ops` (what kind of work an operator is), `facts` (counts that
a budget can judge).
"""
