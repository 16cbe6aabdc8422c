"""Prometheus texts of real servers, shortened to the series in question."""

from neoserve.measure.engine import metrics

# vLLM 0.32.0, after one request of 7 prompt tokens, 5 answered.
VLLM = r"""
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="/m"} 2.0
vllm:num_requests_waiting{engine="0",model_name="/m"} 1.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="/m",reason="capacity"} 1.0
vllm:kv_cache_usage_perc{engine="0",model_name="/m"} 0.25
vllm:prefix_cache_queries_total{engine="0",model_name="/m"} 7.0
vllm:prefix_cache_queries_created{engine="0",model_name="/m"} 1.7960538218098128e+09
vllm:prefix_cache_hits_total{engine="0",model_name="/m"} 0.0
vllm:num_preemptions_total{engine="0",model_name="/m"} 3.0
vllm:prompt_tokens_total{engine="0",model_name="/m"} 7.0
vllm:generation_tokens_total{engine="0",model_name="/m"} 5.0
vllm:request_queue_time_seconds_bucket{engine="0",le="0.3",model_name="/m"} 1.0
vllm:request_queue_time_seconds_count{engine="0",model_name="/m"} 1.0
vllm:request_queue_time_seconds_sum{engine="0",model_name="/m"} 4.2e-05
vllm:cache_config_info{block_size="128",cache_dtype="auto",layout="a \"b\", c",engine="0"} 1.0
"""


def test_vllm():
    assert metrics.vocabulary(VLLM) == {
        "running": 2, "waiting": 1, "kv_usage_share": 0.25, "prefix_hit_tokens": 0,
        "prefix_query_tokens": 7, "preemptions": 3, "queue_time_s_sum": 4.2e-05,
        "queue_time_count": 1, "prompt_tokens": 7, "output_tokens": 5,
    }  # fmt: skip
    assert metrics.info(VLLM, "vllm:cache_config_info") == {
        "block_size": "128", "cache_dtype": "auto", "layout": r"a \"b\", c", "engine": "0",
    }  # fmt: skip
    assert metrics.info(VLLM, "vllm:other_info") == {}


def test_engines_of_one_server_are_summed_and_shares_averaged():
    second = VLLM.replace('engine="0"', 'engine="1"').replace("0.25", "0.75")
    found = metrics.vocabulary(VLLM + second)
    assert (found["running"], found["output_tokens"]) == (4, 10)
    assert found["kv_usage_share"] == 0.5


def test_older_llama_cpp_says_less():
    text = "llamacpp:prompt_tokens_total 24\nllamacpp:tokens_predicted_total 6\n"
    assert metrics.vocabulary(text) == {"prompt_tokens": 24, "output_tokens": 6}
    cached = text + "llamacpp:prompt_tokens_cached_total 8\n"
    found = metrics.vocabulary(cached)
    assert (found["prompt_tokens"], found["prefix_query_tokens"]) == (32, 32)
    assert found["prefix_hit_tokens"] == 8


def test_lines_that_are_none():
    assert metrics.vocabulary("") == {}
    assert metrics.vocabulary("<html>\nvllm:num_requests_running nothing\n") == {}
