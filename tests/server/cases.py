"""What a server of this kind must withstand, row by row, and the tests that show it.

Rows are faults that servers of this kind were reported to have: A protocol, B streaming, C clients that
leave, D pictures, E sounds, F fetching and files, G limits and fairness, H crashes and ends, I generation,
J caches. `Covered` names tests by node id, without parameters;
`test_cases_table.py` fails for a test that does not exist. `NotApplicable` says why a row can't occur here.
"""

from typing import NamedTuple


class Covered(NamedTuple):
    row: str
    tests: tuple[str, ...]


class NotApplicable(NamedTuple):
    row: str
    reason: str


def _tests(row: str, *tests: str) -> Covered:
    return Covered(row, tests)


SERVER, DOOR, MEDIA, ENGINE, PROOF = (
    "tests/server/test_",
    "tests/door/test_",
    "tests/server/media/test_",
    "tests/engine/test_",
    "tests/proof/test_",
)

CASES: dict[str, Covered | NotApplicable] = {
    "A1": _tests(
        "a minimal request has every required key, by the official client and raw",
        f"{SERVER}chat.py::test_whole_answer_has_every_published_key",
        f"{DOOR}openai_client.py::test_streaming_is_not_streaming_and_warm_is_cold",
    ),
    "A2": _tests(
        "every published field is honoured, harmless or refused by name",
        f"{SERVER}schema_fields.py::test_no_published_field_is_forgotten",
        f"{SERVER}schema_fields.py::test_every_row_says_why_it_is_not_honoured",
        f"{SERVER}chat.py::test_the_engine_gets_what_was_asked",
        f"{SERVER}chat_refusals.py::test_what_asks_for_nothing_is_accepted",
        f"{SERVER}chat_refusals.py::test_refusals_name_the_field",
    ),
    "A3": _tests(
        "unknown fields are refused by name, nulls are absent",
        f"{SERVER}chat_refusals.py::test_refusals_name_the_field",
        f"{SERVER}chat_refusals.py::test_unknown_fields_can_be_allowed",
        f"{SERVER}chat.py::test_nulls_are_absent",
    ),
    "A4": _tests("bodies that are no object", f"{SERVER}body.py::test_what_is_not_plain_json_is_400"),
    "A5": _tests(
        "NaN, infinities, duplicate keys, bottomless nesting",
        f"{SERVER}body.py::test_what_is_not_plain_json_is_400",
        f"{SERVER}body.py::test_depth_is_bounded_exactly",
    ),
    "A6": _tests(
        "lone surrogates, NUL, invalid UTF-8, streamed or not",
        f"{SERVER}body.py::test_what_is_not_plain_json_is_400",
        f"{SERVER}body.py::test_nul_and_surrogate_pairs_are_text",
        f"{SERVER}sent_back.py::test_half_of_a_surrogate_pair_in_earlier_arguments_is_replaced",
    ),
    "A7": _tests("other content types", f"{SERVER}body.py::test_other_content_types_are_415"),
    "A8": _tests("malformed messages", f"{SERVER}chat_refusals.py::test_refusals_name_the_field"),
    "A9": _tests("malformed media parts", f"{SERVER}chat_refusals.py::test_refusals_name_the_field"),
    "A10": _tests(
        "n out of range, at once",
        f"{SERVER}chat_refusals.py::test_refusals_name_the_field",
        f"{SERVER}chat.py::test_a_wild_n_is_refused_at_once",
    ),
    "A11": _tests(
        "sampling fields out of range",
        f"{SERVER}chat_refusals.py::test_refusals_name_the_field",
        f"{SERVER}chat.py::test_a_limit_of_any_size_reaches_the_engine",
        f"{ENGINE}admission.py::test_answers_are_capped_to_what_can_ever_fit",
    ),
    "A12": _tests(
        "token ids outside the vocabulary; the neighbour in the batch is not touched",
        f"{SERVER}chat_refusals.py::test_refusals_name_the_field",
        f"{DOOR}protocol.py::test_a_wild_token_id_does_not_touch_its_neighbour",
    ),
    "A13": _tests("wrong model names", f"{SERVER}chat_refusals.py::test_an_unknown_model_is_404"),
    "A14": _tests(
        "endless bodies, lengths that lie, heads without end",
        f"{SERVER}body.py::test_a_large_body_is_413_before_it_is_read",
        f"{SERVER}stream_live.py::test_an_endless_body_gets_its_413",
        f"{SERVER}stream_live.py::test_a_head_without_end_is_refused",
        f"{SERVER}stream_live.py::test_a_length_that_lies",
    ),
    "A15": _tests(
        "a byte a second",
        f"{SERVER}body.py::test_a_slow_body_is_408",
        f"{SERVER}stream_live.py::test_a_head_without_end_is_refused",
    ),
    "A16": _tests(
        "media for a model that does not take them",
        f"{SERVER}chat_refusals.py::test_refusals_name_the_field",
        f"{DOOR}tools.py::test_a_text_model_refuses_pictures",
    ),
    "B1": _tests(
        "order of a stream; its text is the whole answer's",
        f"{SERVER}chat.py::test_stream_begins_with_roles_in_order_and_ends_with_usage",
        f"{DOOR}openai_client.py::test_streaming_is_not_streaming_and_warm_is_cold",
    ),
    "B2": _tests(
        "include_usage",
        f"{SERVER}chat.py::test_stream_begins_with_roles_in_order_and_ends_with_usage",
    ),
    "B3": _tests(
        "what is refused is refused before a stream begins",
        f"{SERVER}chat.py::test_a_prompt_that_fills_the_context_is_refused_with_counts",
        f"{SERVER}chat_refusals.py::test_bad_media_are_refused_before_the_stream_begins",
        f"{SERVER}structured.py::test_schemas_that_cannot_be_enforced",
        f"{DOOR}openai_client.py::test_bad_media_are_refused_by_field",
    ),
    "B4": _tests(
        "a failure before the first token",
        f"{SERVER}chat_refusals.py::test_failures_before_the_first_token_have_a_status",
    ),
    "B5": _tests(
        "a failure after tokens breaks the connection",
        f"{SERVER}stream_live.py::test_a_failure_after_tokens_is_an_error_event_and_a_broken_connection",
    ),
    "B6": _tests(
        "heartbeats during a long prefill",
        f"{SERVER}stream_live.py::test_heartbeats_keep_a_long_prefill_alive",
    ),
    "B7": _tests(
        "characters of many tokens",
        f"{SERVER}chat.py::test_characters_are_never_cut",
        f"{SERVER}chat.py::test_half_a_character_at_the_end_is_flushed",
        f"{SERVER}detokenizer.py::test_any_cut_gives_the_same_text",
    ),
    "B8": _tests(
        "a stop string over several tokens",
        f"{SERVER}chat.py::test_stop_strings",
        f"{SERVER}stop_strings.py::test_holds_back_only_what_might_become_a_stop_string",
    ),
    "B9": _tests(
        "stop strings that overlap, are everything, or lie inside a character",
        f"{SERVER}chat.py::test_stop_strings",
        f"{SERVER}chat.py::test_stop_strings_inside_characters",
        f"{SERVER}stop_strings.py::test_shows_exactly_what_precedes_the_earliest_match",
    ),
    "B10": _tests(
        "a reader that does not read",
        f"{SERVER}stream_live.py::test_a_reader_that_does_not_read_is_dropped_and_others_go_on",
    ),
    "B11": _tests(
        "proxies",
        f"{SERVER}chat.py::test_stream_headers_forbid_buffering",
        f"{SERVER}until_close.py::test_a_stream_is_its_events_and_nothing_else",
    ),
    "C1": _tests(
        "a stream that is closed frees its work",
        f"{DOOR}openai_client.py::test_who_leaves_frees_the_work",
        f"{SERVER}stream_live.py::test_a_client_that_leaves_cancels_its_request",
        f"{ENGINE}loop.py::test_an_abort_frees_everything_at_once",
    ),
    "C2": _tests(
        "and so does a whole answer's client",
        f"{DOOR}openai_client.py::test_who_leaves_frees_the_work",
        f"{SERVER}stream_live.py::test_a_client_that_leaves_cancels_its_request",
    ),
    "C3": _tests(
        "whenever it leaves",
        f"{SERVER}stream_live.py::test_a_client_that_leaves_the_queue_frees_its_place",
        f"{MEDIA}pipeline.py::test_cancelled_alone_lets_everything_go",
        f"{MEDIA}decoders.py::test_cancelling_ends_the_process",
        f"{ENGINE}local_client.py::test_cancelling_the_reader_aborts_and_cancels_its_media",
        f"{ENGINE}local_client.py::test_abort_by_id_ends_the_iterator_and_late_aborts_do_nothing",
        f"{ENGINE}loop.py::test_unknown_aborts_are_ignored_and_pings_answered",
        f"{ENGINE}grammar.py::test_in_the_loop_an_abort_while_compiling",
        "tests/kvcache/test_manager_stateful.py::TestManager",
    ),
    "C4": _tests(
        "hundreds that leave, then one that stays",
        f"{DOOR}survival.py::test_two_hundred_that_leave_and_one_that_stays",
    ),
    "C5": _tests(
        "half-closed is closed",
        f"{SERVER}stream_live.py::test_a_client_that_leaves_cancels_its_request",
    ),
    "C6": _tests(
        "one of two that share",
        f"{ENGINE}progress.py::test_an_aborted_promiser_hands_over",
        f"{ENGINE}progress.py::test_a_media_leader_that_ends_hands_over",
        f"{PROOF}nothing_twice.py::test_an_aborted_promiser_hands_over",
        f"{MEDIA}pipeline.py::test_cancelled_leader_leaves_followers_theirs",
    ),
    "D1": _tests(
        "truncated and damaged files",
        f"{MEDIA}image.py::test_broken_files",
        f"{MEDIA}image.py::test_png_without_its_end_is_whole",
        f"{MEDIA}image.py::test_mutated_files_are_taken_or_refused",
    ),
    "D2": _tests("megabytes of damage, in a second", f"{MEDIA}image.py::test_broken_files"),
    "D3": _tests("nothing at all", f"{MEDIA}image.py::test_empty", f"{MEDIA}source.py::test_empty"),
    "D4": _tests("formats outside the list", f"{MEDIA}image.py::test_other_formats"),
    "D5": _tests(
        "tiny and thin pictures",
        f"{MEDIA}image.py::test_odd_sizes",
        f"{DOOR}media.py::test_pictures_of_odd_sizes_are_answered_or_refused",
    ),
    "D6": _tests("any aspect ratio", f"{DOOR}media.py::test_pictures_of_odd_sizes_are_answered_or_refused"),
    "D7": _tests(
        "bombs, from their headers",
        f"{MEDIA}image.py::test_bombs_are_refused_from_the_header",
        f"{MEDIA}image.py::test_giant_claims",
    ),
    "D8": _tests(
        "many large pictures", f"{MEDIA}pipeline.py::test_many_large_pictures_are_refused_from_their_headers"
    ),
    "D9": _tests(
        "transparency",
        f"{MEDIA}image.py::test_transparency_is_white",
        f"{MEDIA}image.py::test_half_transparency_is_blended",
    ),
    "D10": _tests(
        "orientation",
        f"{MEDIA}image.py::test_orientation_is_applied",
        f"{MEDIA}pipeline.py::test_orientation_decides_the_layout",
    ),
    "D11": _tests(
        "colour spaces and depths",
        f"{MEDIA}image.py::test_sixteen_bits_are_scaled",
        f"{MEDIA}image.py::test_one_bit",
        f"{MEDIA}image.py::test_cmyk_jpeg",
        f"{MEDIA}image.py::test_colour_profile_is_converted",
        f"{MEDIA}image.py::test_float_tiff_is_refused",
    ),
    "D12": _tests("animations", f"{MEDIA}image.py::test_first_frame_of_animations"),
    "D13": _tests(
        "WebP, AVIF, HEIC",
        f"{MEDIA}image.py::test_formats_give_the_same_pixels",
        f"{MEDIA}image.py::test_other_formats",
    ),
    "D14": _tests(
        "labels that lie", f"{MEDIA}source.py::test_taken", f"{DOOR}media.py::test_labels_are_ignored"
    ),
    "D15": _tests(
        "data URLs by the strict table", f"{MEDIA}source.py::test_taken", f"{MEDIA}source.py::test_refused"
    ),
    "D16": _tests(
        "typed placeholders are text",
        f"{SERVER}prompt.py::test_typed_control_tokens_are_text",
        f"{SERVER}prompt.py::test_typed_media_markers_are_text",
        f"{DOOR}openai_client.py::test_typed_placeholders_are_text",
    ),
    "D17": _tests(
        "messages say nothing of the inside",
        f"{MEDIA}image.py::test_broken_files",
        f"{MEDIA}audio.py::test_mutated_files_are_taken_or_refused",
        f"{DOOR}openai_client.py::test_bad_media_are_refused_by_field",
    ),
    "D18": _tests(
        "many pictures, many at once, twice", f"{DOOR}media.py::test_many_pictures_many_at_once_twice"
    ),
    "D19": _tests(
        "order and content of pictures",
        f"{DOOR}openai_client.py::test_order_and_content_of_pictures_matter",
        f"{PROOF}never_the_wrong_media.py::test_two_media_swapped",
        f"{PROOF}never_the_wrong_media.py::test_other_media_behind_equal_tokens",
    ),
    "E1": _tests("formats of sounds", f"{MEDIA}audio.py::test_formats"),
    "E2": _tests("rates and channels", f"{MEDIA}audio.py::test_rates_and_channels"),
    "E3": _tests("opposite phases, silent channels", f"{MEDIA}audio.py::test_channels_are_averaged"),
    "E4": _tests(
        "impossible headers",
        f"{MEDIA}audio.py::test_too_many_channels",
        f"{MEDIA}audio.py::test_odd_rates",
        f"{MEDIA}audio.py::test_header_with_impossible_numbers",
    ),
    "E5": _tests("NaN and infinity", f"{MEDIA}audio.py::test_numbers_that_are_none"),
    "E6": _tests(
        "too short, and silence",
        f"{MEDIA}audio.py::test_too_short",
        f"{MEDIA}audio.py::test_silence_is_a_sound",
    ),
    "E7": _tests(
        "cut files: only decoded samples count",
        f"{MEDIA}audio.py::test_cut_files_give_what_is_there",
        f"{MEDIA}audio.py::test_cut_files_that_decoders_notice",
        f"{DOOR}media.py::test_a_cut_sound_has_the_tokens_of_what_was_decoded",
    ),
    "E8": _tests(
        "formats that lie or are unknown",
        f"{MEDIA}audio.py::test_what_is_no_sound",
        f"{MEDIA}source.py::test_audio_data",
        f"{SERVER}chat_refusals.py::test_refusals_name_the_field",
        f"{DOOR}media.py::test_labels_are_ignored",
    ),
    "E9": _tests("hours of sound in kilobytes", f"{MEDIA}audio.py::test_length_is_counted_while_decoding"),
    "E10": _tests(
        "around 30 s, and 30 with 60 s in a batch",
        f"{MEDIA}audio.py::test_limit",
        f"{DOOR}media.py::test_sounds_around_thirty_seconds_side_by_side",
    ),
    "E11": _tests(
        "several sounds, sounds with pictures, too many",
        f"{DOOR}openai_client.py::test_streaming_is_not_streaming_and_warm_is_cold",
        f"{SERVER}chat_refusals.py::test_too_many_media",
    ),
    "F1": _tests(
        "private addresses in every spelling",
        f"{MEDIA}fetch.py::test_private_addresses",
        f"{MEDIA}fetch.py::test_addresses_are_checked_before_any_packet",
    ),
    "F2": _tests("redirects", f"{MEDIA}fetch.py::test_redirects", f"{MEDIA}fetch.py::test_bad_redirects"),
    "F3": _tests(
        "hosts that look allowed",
        f"{MEDIA}fetch.py::test_hosts_match_exactly",
        f"{MEDIA}fetch.py::test_odd_urls_are_refused",
        f"{MEDIA}fetch.py::test_parsing",
    ),
    "F4": _tests("rebinding", f"{MEDIA}fetch.py::test_name_is_resolved_once_for_each_hop"),
    "F5": _tests(
        "hostile bodies",
        f"{MEDIA}fetch.py::test_endless_body",
        f"{MEDIA}fetch.py::test_slow_or_silent",
        f"{MEDIA}fetch.py::test_bad_answers",
    ),
    "F6": _tests(
        "files",
        f"{MEDIA}files.py::test_off_without_a_root",
        f"{MEDIA}files.py::test_outside",
        f"{MEDIA}files.py::test_elsewhere",
    ),
    "F7": _tests("a markdown picture in text", f"{SERVER}chat.py::test_a_picture_in_markdown_is_text"),
    "F8": _tests("remote URLs are off", f"{MEDIA}source.py::test_off_by_default"),
    "F9": _tests("request ids", f"{SERVER}auth.py::test_a_hostile_request_id_is_replaced"),
    "G1": _tests(
        "keys on every route",
        f"{SERVER}auth.py::test_every_route_wants_a_key",
        f"{SERVER}auth.py::test_with_a_key_unknown_routes_are_404_in_openais_form",
        f"{SERVER}auth.py::test_public_routes",
    ),
    "G2": NotApplicable(
        "timing over prefixes of keys",
        "no key is compared, only digests of keys, each of them at its full length",
    ),
    "G3": _tests(
        "a full queue refuses at once, before media are read",
        f"{SERVER}admission.py::test_a_full_queue_refuses_at_once_and_a_long_wait_ends",
        f"{SERVER}admission.py::test_a_full_server_answers_503_without_reading_media",
    ),
    "G4": _tests(
        "a long wait ends",
        f"{SERVER}admission.py::test_a_full_queue_refuses_at_once_and_a_long_wait_ends",
        f"{SERVER}grammar_trials.py::test_who_waits_too_long_may_come_again",
    ),
    "G5": _tests(
        "long prompts and many pictures beside answers: every step has all answers in it",
        f"{ENGINE}progress.py::test_decodes_are_in_every_step_of_a_long_prefill",
        f"{ENGINE}progress.py::test_beside_answers_the_encoder_takes_small_bites",
        f"{ENGINE}progress.py::test_thousands_in_the_queue_cost_a_step_little",
    ),
    "G6": _tests(
        "tenants take turns",
        f"{SERVER}admission.py::test_tenants_take_turns",
        f"{SERVER}admission.py::test_a_queue_full_of_one_tenant_has_room_for_another",
        f"{SERVER}open_bodies.py::test_a_tenant_with_slow_bodies_does_not_shut_out_another",
    ),
    "G7": _tests(
        "health answers while others are prepared",
        f"{DOOR}health.py::test_health_answers_while",
        f"{SERVER}stream_live.py::test_health_answers_while_long_bodies_are_read",
        f"{SERVER}lane.py::test_short_work_does_not_wait_for_long_work",
    ),
    "G8": _tests(
        "a pool too small: the same answers",
        f"{DOOR}survival.py::test_sixteen_long_requests_in_a_pool_for_a_few",
        f"{PROOF}equal_to_transformers.py::test_preempted_and_resumed",
    ),
    "G9": _tests(
        "what can never fit, and what fits one by one",
        f"{DOOR}survival.py::test_what_can_never_fit_is_refused_and_what_fits_one_by_one_is_served",
        f"{ENGINE}progress.py::test_two_media_that_fit_alone_but_not_together",
        f"{ENGINE}progress.py::test_a_pool_for_exactly_one_request",
    ),
    "G10": _tests(
        "short memory",
        f"{ENGINE}short_memory.py::test_short_memory_fails_only_whoever_asks_too_much_and_says_come_again",
        f"{ENGINE}short_memory.py::test_short_memory_in_the_encoder_is_not_the_medias_fault",
    ),
    "G11": _tests(
        "nothing is left of any request",
        f"{SERVER}process.py::test_memory_that_was_used_is_used_again",
        f"{DOOR}generation.py::test_many_schemas_leave_nothing_behind",
        f"{MEDIA}files.py::test_no_descriptor_is_left",
        f"{SERVER}restart.py::test_what_is_lost_is_closed",
    ),
    "H1": _tests(
        "an engine that is killed",
        f"{DOOR}survival.py::test_eight_streams_on_an_engine_that_stops",
        f"{SERVER}launch.py::test_a_killed_engine_is_started_again_and_a_drain_finishes_all",
        f"{ENGINE}process.py::test_start_answer_and_sudden_death",
    ),
    "H2": _tests(
        "an engine that hangs",
        f"{DOOR}survival.py::test_eight_streams_on_an_engine_that_stops",
        f"{SERVER}auth.py::test_readiness_follows_the_engine",
        f"{ENGINE}local_client.py::test_waiting_for_media_is_progress_but_hanging_is_not",
    ),
    "H3": _tests(
        "a fault inside ends one request",
        f"{MEDIA}decoders.py::test_others_are_decoded_while_some_crash",
        f"{ENGINE}loop.py::test_only_the_culprit_fails",
        f"{ENGINE}loop.py::test_a_failure_in_the_middle_of_answers",
        f"{ENGINE}loop.py::test_a_failing_encoder_fails_only_those_who_need_it",
        f"{ENGINE}sampler.py::test_a_broken_row_fails_alone",
    ),
    "H4": _tests(
        "a drain finishes what was accepted",
        f"{SERVER}launch.py::test_a_killed_engine_is_started_again_and_a_drain_finishes_all",
        f"{SERVER}responses.py::test_a_server_that_drains_takes_no_responses",
    ),
    "H5": _tests(
        "signals twice, while loading, and readers that don't read",
        f"{SERVER}launch.py::test_who_is_cut_off_is_told_so",
        f"{SERVER}launch.py::test_a_signal_while_loading_ends_it",
    ),
    "H6": _tests(
        "killed, and started again on the same port",
        f"{DOOR}survival.py::test_killed_and_started_again_on_the_same_port",
        f"{MEDIA}decoders.py::test_none_outlives_a_server_that_is_killed",
    ),
    "H7": _tests(
        "a log that nobody reads, no place for a socket",
        f"{SERVER}launch.py::test_a_log_that_nobody_reads_any_more",
        f"{ENGINE}process.py::test_no_place_for_the_socket",
    ),
    "I1": _tests(
        "exactly below, at and above the context",
        f"{SERVER}chat.py::test_a_prompt_that_fills_the_context_is_refused_with_counts",
        f"{DOOR}generation.py::test_the_context_is_exact",
    ),
    "I2": _tests(
        "no limit given",
        f"{SERVER}chat.py::test_a_limit_of_any_size_reaches_the_engine",
        f"{ENGINE}admission.py::test_answers_are_capped_to_what_can_ever_fit",
        f"{DOOR}generation.py::test_without_a_limit_an_answer_fills_the_context",
    ),
    "I3": _tests(
        "n = 4, streamed or not",
        f"{DOOR}openai_client.py::test_four_choices",
        f"{DOOR}generation.py::test_four_streamed_choices_are_the_whole_ones",
        f"{PROOF}equal_to_transformers.py::test_four_choices_share_the_prompt",
    ),
    "I4": _tests(
        "the same however it was reached",
        f"{PROOF}equal_to_transformers.py::test_cold_and_warm",
        f"{PROOF}equal_to_transformers.py::test_eight_at_once",
        f"{PROOF}equal_to_transformers.py::test_preempted_and_resumed",
        f"{ENGINE}native.py::test_a_row_does_not_depend_on_its_batch",
        f"{ENGINE}sampler.py::test_a_row_does_not_depend_on_its_batch",
        f"{DOOR}generation.py::test_a_seed_means_the_same_alone_and_in_company",
    ),
    "I5": _tests(
        "seeds",
        f"{ENGINE}sampler.py::test_randomness_depends_on_seed_choice_and_position_alone",
        f"{SERVER}chat_refusals.py::test_refusals_name_the_field",
        f"{SERVER}chat_refusals.py::test_what_asks_for_nothing_is_accepted",
        f"{DOOR}generation.py::test_a_seed_means_the_same_alone_and_in_company",
    ),
    "I6": _tests(
        "log-probabilities of what can't be",
        f"{SERVER}chat.py::test_logprobs_are_finite_and_ordered",
        f"{ENGINE}sampler.py::test_logprobs_are_finite_and_the_greedy_token_leads_among_equals",
        f"{DOOR}generation.py::test_logprobs_under_a_grammar_are_finite",
    ),
    "I7": _tests(
        "log-probabilities agree",
        f"{ENGINE}sampler.py::test_logprobs_are_of_the_raw_distribution",
        f"{DOOR}generation.py::test_greedy_takes_the_first_and_streams_agree",
    ),
    "I8": _tests(
        "schemas that can't be enforced",
        f"{SERVER}structured.py::test_schemas_that_cannot_be_enforced",
        f"{SERVER}structured.py::test_schemas_that_can",
    ),
    "I9": _tests(
        "thousands of grammars",
        f"{ENGINE}grammar.py::test_compiled_grammars_are_bounded",
        f"{DOOR}generation.py::test_many_schemas_leave_nothing_behind",
    ),
    "I10": _tests("a schema cut short", f"{SERVER}structured.py::test_an_answer_cut_short_says_so"),
    "I11": _tests(
        "tool calls",
        f"{SERVER}tools.py::test_calls_are_streamed_as_the_official_client_joins_them",
        f"{SERVER}tools.py::test_calls_are_read_alike_in_any_pieces",
        f"{SERVER}tools.py::test_a_forced_call_has_a_grammar",
        f"{SERVER}tools.py::test_none_neither_offers_nor_reads_tools",
        f"{DOOR}tools.py::test_a_required_call_follows_its_schema",
    ),
    "I12": _tests(
        "chat templates from a client",
        f"{SERVER}chat_refusals.py::test_refusals_name_the_field",
        f"{SERVER}template.py::test_time_and_size_are_bounded",
    ),
    "I13": _tests(
        "usage adds up",
        f"{DOOR}openai_client.py::test_streaming_is_not_streaming_and_warm_is_cold",
        f"{DOOR}openai_client.py::test_the_second_time_nothing_is_decoded_prepared_or_encoded",
    ),
    "J1": _tests(
        "the same bytes in another shape",
        f"{DOOR}media.py::test_the_same_pixels_in_another_shape_are_another_picture",
    ),
    "J2": _tests("one picture in several formats", f"{DOOR}media.py::test_one_picture_in_several_formats"),
    "J3": _tests(
        "the same bytes with other options",
        f"{MEDIA}pipeline.py::test_what_differs_never_shares",
        f"{DOOR}media.py::test_another_detail_is_another_picture",
    ),
    "J4": _tests(
        "forced collisions",
        f"{PROOF}never_the_wrong_media.py::test_a_thousand_prompts_with_a_hash_of_eight_bits",
    ),
    "J5": _tests(
        "spans across blocks",
        f"{PROOF}never_the_wrong_media.py::test_two_media_in_one_block",
        f"{PROOF}never_the_wrong_media.py::test_the_same_media_elsewhere",
        f"{PROOF}never_the_wrong_media.py::test_other_media_behind_equal_tokens",
    ),
    "J6": _tests(
        "salts: no hit, and no less work",
        f"{SERVER}chat.py::test_tenants_and_salts_have_namespaces_of_their_own",
        f"{SERVER}chat_refusals.py::test_refusals_name_the_field",
        f"{PROOF}never_the_wrong_media.py::test_other_namespaces_share_nothing",
        f"{DOOR}generation.py::test_no_hit_across_salts",
        f"{DOOR}generation.py::test_another_salt_costs_what_a_first_request_costs",
        f"{MEDIA}pipeline.py::test_what_differs_never_shares",
    ),
    "J7": _tests(
        "a good picture after a request refused for a bad one",
        f"{MEDIA}pipeline.py::test_a_refusal_commits_nothing_else",
        f"{DOOR}openai_client.py::test_others_are_not_touched_by_a_refused_request",
    ),
    "J8": _tests(
        "ids that clients give to media",
        f"{MEDIA}named.py::test_a_name_is_bound_to_its_tenant_and_content",
        f"{DOOR}media.py::test_a_name_stands_for_its_picture",
    ),
    "J9": _tests(
        "eviction while a hit is in use",
        "tests/kvcache/test_manager_stateful.py::TestManager",
        "tests/kvcache/test_encodings.py::test_what_is_pinned_stays",
        f"{PROOF}equal_to_transformers.py::test_preempted_and_resumed",
    ),
}
