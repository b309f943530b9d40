// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "repeat.h"

#include <errno.h>
#include <linux/types.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "../bpf/records.h"

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

enum {
	MAX_TEMPLATES = 1024,
	MAX_WORDS = 1 << 13,
	SLOTS = 1 << 14, /* entries of a hash table: a power of two, never all in use */
	MAX_COLUMNS = 8,
};

static const size_t max_template_bytes = 8 << 20;
static const size_t max_text = 256 << 10;
static const size_t max_unit = 64 << 10;
/* Limit of a time, so that a sum of max_terms times, half of them subtracted, fits in 64 bits. */
static const int64_t max_time = 1LL << 55;
static const uint32_t max_terms = 256;
/* Mask of a word in a record that is part of the key. */
static const uint64_t compared = ~0ULL;
/* Up to this value, a double shows ns as us with three decimals exactly as Python does. */
static const int64_t max_us3 = 1LL << 50;
static const int64_t ns_per_s = 1000000000;

struct template
{
	uint64_t hash;
	size_t key_size;
	char *key; /* in the same allocation as this struct, like its arrays */
	struct rsn_repeat_template is;
};

struct word {
	int64_t function;
	int64_t value;
	size_t size;
	size_t width;
	char *text;
};

/* A session record, and the record of its events before it, if there is one. */
struct unit {
	const char *part;
	const char *session;
	uint32_t part_size;
	uint32_t session_size;
	size_t size; /* both, with padding; without a session: any other record */
};

struct cell {
	size_t at; /* offset in `cells` */
	size_t size;
	size_t width;
};

struct buffer {
	char *data;
	size_t size;
	size_t room;
	bool failed;
};

/* Which words of a struct are part of the key. */
struct masks {
	uint64_t session[sizeof(struct rsn_session) / 8];
	uint64_t slot[sizeof(struct rsn_slot) / 8];
	uint64_t failed_slot[sizeof(struct rsn_slot) / 8];
	uint64_t event[sizeof(struct rsn_event) / 8];
	uint64_t part[sizeof(struct rsn_part) / 8];
};

_Static_assert(!(sizeof(struct rsn_session) % 8 || sizeof(struct rsn_slot) % 8 ||
		 sizeof(struct rsn_event) % 8 || sizeof(struct rsn_part) % 8),
	       "records are compared word by word");

struct rsn_repeat {
	struct masks masks;
	int64_t clock; /* ns added to a time before the second is looked up */
	struct template *templates[MAX_TEMPLATES];
	uint32_t template_cnt;
	size_t template_bytes;
	uint16_t by_key[SLOTS]; /* template numbers, starting at 1 */
	struct word words[MAX_WORDS];
	uint32_t word_cnt;
	uint16_t by_value[SLOTS]; /* word numbers, starting at 1 */
	uint64_t seen[SLOTS]; /* hashes of sessions without a template */
	uint32_t used[MAX_TEMPLATES], times[MAX_TEMPLATES], place[MAX_TEMPLATES];
	struct buffer key, text, cells, cell_places;
	int64_t *numbers;
	size_t number_room;
};

/* The code of a member's type in Python's struct module. */
#define CODE(member) \
	_Generic((member),         \
		__u8: 'B',         \
		__u16: 'H',        \
		__u32: 'I',        \
		__u64: 'Q',        \
		__s16: 'h',        \
		__s32: 'i',        \
		__s64: 'q',        \
		char *: 's')
#define MEMBER(record, member)                                                                   \
	{                                                                                        \
#record, #member, sizeof(struct record), offsetof(struct record, member),        \
			sizeof(((struct record *)0)->member), CODE(((struct record *)0)->member) \
	}

static const struct rsn_repeat_member members[] = {
	MEMBER(rsn_session, type),
	MEMBER(rsn_session, size),
	MEMBER(rsn_session, start_ts),
	MEMBER(rsn_session, emit_ts),
	MEMBER(rsn_session, tid),
	MEMBER(rsn_session, tgid),
	MEMBER(rsn_session, task_comm),
	MEMBER(rsn_session, proc_comm),
	MEMBER(rsn_session, flags),
	MEMBER(rsn_session, last_seq),
	MEMBER(rsn_session, depth),
	MEMBER(rsn_session, slot_cnt),
	MEMBER(rsn_session, stitch_pos),
	MEMBER(rsn_session, kstack_cnt),
	MEMBER(rsn_session, dropped),
	MEMBER(rsn_session, too_deep),
	MEMBER(rsn_session, lost_exits),
	MEMBER(rsn_session, lost_entries),
	MEMBER(rsn_session, parts),
	MEMBER(rsn_session, cpu),
	MEMBER(rsn_session, interrupt_pos),
	MEMBER(rsn_session, ns_tid),
	MEMBER(rsn_session, ns_tgid),
	MEMBER(rsn_session, pid_ns),
	MEMBER(rsn_session, proc_tgid),
	MEMBER(rsn_session, missed),
	MEMBER(rsn_session, missed_in),
	MEMBER(rsn_slot, func_id),
	MEMBER(rsn_slot, seq),
	MEMBER(rsn_slot, result),
	MEMBER(rsn_slot, latency),
	MEMBER(rsn_event, size),
	MEMBER(rsn_event, kind),
	MEMBER(rsn_event, flags),
	MEMBER(rsn_event, depth),
	MEMBER(rsn_event, cpu),
	MEMBER(rsn_event, id),
	MEMBER(rsn_event, seq),
	MEMBER(rsn_event, ts),
	MEMBER(rsn_event, result),
	MEMBER(rsn_part, type),
	MEMBER(rsn_part, size),
	MEMBER(rsn_part, start_ts),
	MEMBER(rsn_part, tid),
	MEMBER(rsn_part, cnt),
};

/* All members of the structs for records, struct by struct, in order of declaration. */
const struct rsn_repeat_member *rsn_repeat_members(size_t *cnt)
{
	*cnt = ARRAY_SIZE(members);
	return members;
}

static bool reserve(struct buffer *buffer, size_t more)
{
	size_t room = buffer->room ? buffer->room : 4096;
	char *data;

	if (more <= buffer->room - buffer->size)
		return true;
	while (room - buffer->size < more)
		room *= 2;
	data = realloc(buffer->data, room);
	if (!data) {
		buffer->failed = true;
		return false;
	}
	buffer->data = data;
	buffer->room = room;
	return true;
}

static void put(struct buffer *buffer, const char *data, size_t size)
{
	if (!size || !reserve(buffer, size))
		return;
	memcpy(buffer->data + buffer->size, data, size);
	buffer->size += size;
}

static void put_many(struct buffer *buffer, char c, size_t size)
{
	if (!size || !reserve(buffer, size))
		return;
	memset(buffer->data + buffer->size, c, size);
	buffer->size += size;
}

/* Write a number with at least `digits` digits, padded with zeros. */
static void put_digits(struct buffer *buffer, uint64_t number, size_t digits)
{
	char text[24], *at = text + sizeof(text);

	for (; number || digits; number /= 10) {
		*--at = '0' + number % 10;
		digits -= digits > 0;
	}
	put(buffer, at, text + sizeof(text) - at);
}

static uint64_t magnitude(int64_t number)
{
	return number < 0 ? -(uint64_t)number : (uint64_t)number;
}

static void put_number(struct buffer *buffer, int64_t number)
{
	if (number < 0)
		put(buffer, "-", 1);
	put_digits(buffer, magnitude(number), 1);
}

static uint64_t mixed(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * 0x9e3779b97f4a7c15;
	return hash ^ hash >> 32;
}

static uint32_t u32_at(const char *data)
{
	uint32_t value;

	memcpy(&value, data, sizeof(value));
	return value;
}

/* Offset of the end of the record at `data`, 0 if the record is damaged. */
static size_t record_end(const char *data, size_t size)
{
	size_t needs;

	if (size < 2 * sizeof(uint32_t))
		return 0;
	needs = u32_at(data + sizeof(uint32_t));
	if (needs < 2 * sizeof(uint32_t) || needs > size)
		return 0;
	needs = (needs + 7) & ~(size_t)7;
	return needs < size ? needs : size;
}

static struct rsn_session session_at(const char *data)
{
	struct rsn_session session;

	memcpy(&session, data, sizeof(session));
	return session;
}

/* Whether the events record and the session record after it are of the same session. */
static bool belong_together(const char *part, const char *session)
{
	const struct rsn_session head = session_at(session);
	struct rsn_part of;

	memcpy(&of, part, sizeof(of));
	return of.start_ts == head.start_ts && of.tid == head.tid;
}

/* Read the next unit. Returns false if the data is damaged. */
static bool next_unit(const char *data, size_t size, struct unit *unit)
{
	size_t end = record_end(data, size), next;
	const char *session = data;

	*unit = (struct unit){ .size = end };
	if (!end)
		return false;
	if (u32_at(data) == RSN_RECORD_EVENTS) {
		next = record_end(data + end, size - end);
		session = data + end;
		if (!next || u32_at(session) != RSN_RECORD_SESSION ||
		    u32_at(data + 4) < sizeof(struct rsn_part) ||
		    u32_at(session + 4) < sizeof(struct rsn_session) ||
		    !belong_together(data, session))
			return true;
		unit->part = data;
		unit->part_size = u32_at(data + 4);
		unit->size += next;
	} else if (u32_at(data) != RSN_RECORD_SESSION ||
		   u32_at(data + 4) < sizeof(struct rsn_session)) {
		return true;
	}
	unit->session = session;
	unit->session_size = u32_at(session + 4);
	return true;
}

/* Add `cnt` structs to the key, except the bytes in which similar sessions may differ. */
static uint64_t add_masked(struct buffer *key, uint64_t hash, const char *data, size_t cnt,
			   const uint64_t *mask, size_t size)
{
	char *to = key->data + key->size;

	for (size_t i = 0; i < cnt; i++)
		for (size_t at = 0; at < size / 8; at++, data += 8, to += 8) {
			uint64_t word;

			memcpy(&word, data, 8);
			word &= mask[at];
			memcpy(to, &word, 8);
			hash = mixed(hash, word);
		}
	key->size += cnt * size;
	return hash;
}

static int64_t *add_session(int64_t *number, const char *data)
{
	const struct rsn_session session = session_at(data);

	*number++ = session.start_ts;
	*number++ = session.emit_ts;
	*number++ = session.tid;
	*number++ = session.tgid;
	*number++ = session.cpu;
	return number;
}

static int64_t *add_slots(int64_t *number, const char *data, size_t cnt)
{
	for (struct rsn_slot slot; cnt; cnt--, data += sizeof(slot)) {
		memcpy(&slot, data, sizeof(slot));
		*number++ = slot.result;
		*number++ = slot.latency;
	}
	return number;
}

static int64_t *add_events(int64_t *number, const char *data, size_t cnt)
{
	for (struct rsn_event event; cnt; cnt--, data += sizeof(event)) {
		memcpy(&event, data, sizeof(event));
		*number++ = event.result;
		*number++ = event.ts;
		*number++ = event.cpu;
	}
	return number;
}

static size_t count_slots(const struct unit *unit)
{
	return session_at(unit->session).slot_cnt;
}

static size_t count_events(const struct unit *unit)
{
	return unit->part ? (unit->part_size - sizeof(struct rsn_part)) / sizeof(struct rsn_event) :
			    0;
}

/*
 * Whether the unit contains everything that its sizes and counts promise, in whole words, and is
 * within the limits.
 */
static bool is_whole(const struct unit *unit)
{
	const size_t tails = unit->session_size - sizeof(struct rsn_session);

	if (unit->size > max_unit || unit->session_size % 8 ||
	    count_slots(unit) > tails / sizeof(struct rsn_slot))
		return false;
	return !unit->part ||
	       !((unit->part_size - sizeof(struct rsn_part)) % sizeof(struct rsn_event));
}

/*
 * Build the key of a session and read its numbers. Returns the hash of the key, or 0 if a template
 * cannot write this session.
 */
static uint64_t read_unit(struct rsn_repeat *repeat, const struct unit *unit)
{
	const struct masks *masks = &repeat->masks;
	const char *slots, *stack, *events;
	struct buffer *key = &repeat->key;
	size_t slot_cnt, event_cnt;
	int64_t *number;
	uint64_t hash;
	bool failed;

	if (!unit->session || !is_whole(unit))
		return 0;
	key->size = 0;
	if (!reserve(key, unit->size))
		return 0;
	slot_cnt = count_slots(unit);
	event_cnt = count_events(unit);
	failed = session_at(unit->session).flags & RSN_SESSION_ERROR;
	slots = unit->session + sizeof(struct rsn_session);
	stack = slots + slot_cnt * sizeof(struct rsn_slot);
	hash = add_masked(key, 1, unit->session, 1, masks->session, sizeof(struct rsn_session));
	hash = add_masked(key, hash, slots, slot_cnt, failed ? masks->failed_slot : masks->slot,
			  sizeof(struct rsn_slot));
	hash = add_masked(key, hash, stack, (unit->session + unit->session_size - stack) / 8,
			  &compared, 8);
	number = add_session(repeat->numbers, unit->session);
	number = add_slots(number, slots, slot_cnt);
	if (unit->part) {
		events = unit->part + sizeof(struct rsn_part);
		hash = add_masked(key, hash, unit->part, 1, masks->part, sizeof(struct rsn_part));
		hash = add_masked(key, hash, events, event_cnt, masks->event,
				  sizeof(struct rsn_event));
		add_events(number, events, event_cnt);
	}
	return hash ? hash : 1;
}

static struct template **find(struct rsn_repeat *repeat, uint64_t hash, uint16_t **place)
{
	for (size_t at = hash;; at++) {
		uint16_t *number = &repeat->by_key[at % SLOTS];
		struct template **found = *number ? &repeat->templates[*number - 1] : NULL;

		*place = number;
		if (!found || ((*found)->hash == hash && (*found)->key_size == repeat->key.size &&
			       !memcmp((*found)->key, repeat->key.data, repeat->key.size)))
			return found;
	}
}

static const struct word *find_word(struct rsn_repeat *repeat, int64_t function, int64_t value,
				    uint16_t **place)
{
	for (size_t at = mixed(mixed(1, function), value);; at++) {
		uint16_t *number = &repeat->by_value[at % SLOTS];
		struct word *word = *number ? &repeat->words[*number - 1] : NULL;

		*place = number;
		if (!word || (word->function == function && word->value == value))
			return word;
	}
}

static int64_t sum(const struct rsn_repeat *repeat, const struct rsn_repeat_template *template,
		   const struct rsn_repeat_piece *piece)
{
	const int32_t *term = template->terms + piece->first;
	uint64_t sum = 0; /* results may have any value: wrap like Python's 64-bit view */

	for (uint32_t i = 0; i < piece->count; i++, term++)
		sum += *term > 0 ? (uint64_t)repeat->numbers[*term - 1] :
				   -(uint64_t)repeat->numbers[-*term - 1];
	return sum;
}

enum outcome { WRITTEN, NOT_LIKE_IT, NEEDS_WORD };

static enum outcome put_word(struct rsn_repeat *repeat, struct buffer *to, int64_t function,
			     int64_t value, size_t *width, struct rsn_repeat_found *found)
{
	uint16_t *place;
	const struct word *word = find_word(repeat, function, value, &place);

	if (!word) {
		found->needs_word = true;
		found->function = function;
		found->value = value;
		return NEEDS_WORD;
	}
	put(to, word->text, word->size);
	*width = word->width;
	return WRITTEN;
}

static enum outcome put_piece(struct rsn_repeat *repeat, struct buffer *to,
			      const struct rsn_repeat_template *template,
			      const struct rsn_repeat_piece *piece, size_t *width,
			      struct rsn_repeat_found *found)
{
	const bool is_sum = piece->kind >= RSN_REPEAT_NUMBER && piece->kind <= RSN_REPEAT_US3;
	int64_t number = is_sum ? sum(repeat, template, piece) : 0;
	size_t before = to->size;
	enum outcome outcome;

	switch (piece->kind) {
	case RSN_REPEAT_TEXT:
		put(to, template->texts + piece->first, piece->count);
		break;
	case RSN_REPEAT_DASHES:
		break;
	case RSN_REPEAT_WIDEN:
		*width = piece->first;
		return WRITTEN;
	case RSN_REPEAT_NUMBER:
		put_number(to, number);
		break;
	case RSN_REPEAT_US:
		put_number(to, number / 1000);
		put(to, "us", 2);
		break;
	case RSN_REPEAT_US3:
		if (number >= max_us3 || number <= -max_us3)
			return NOT_LIKE_IT;
		if (number < 0)
			put(to, "-", 1);
		put_digits(to, magnitude(number) / 1000, 1);
		put(to, ".", 1);
		put_digits(to, magnitude(number) % 1000, 3);
		put(to, "us", 2);
		break;
	case RSN_REPEAT_RESULT:
		return put_word(repeat, to, piece->count, repeat->numbers[piece->first], width,
				found);
	case RSN_REPEAT_TIME6:
	case RSN_REPEAT_TIME9:
		if (__builtin_add_overflow(repeat->numbers[piece->first], repeat->clock, &number) ||
		    number < 0)
			return NOT_LIKE_IT;
		outcome = put_word(repeat, to, -1, number / ns_per_s, width, found);
		if (outcome != WRITTEN)
			return outcome;
		put(to, ".", 1);
		if (piece->kind == RSN_REPEAT_TIME6)
			put_digits(to, number % ns_per_s / 1000, 6);
		else
			put_digits(to, number % ns_per_s, 9);
		break;
	}
	*width = to->size - before;
	return WRITTEN;
}

static uint32_t count_numbers(const struct unit *unit)
{
	return RSN_REPEAT_SESSION + RSN_REPEAT_SLOT * count_slots(unit) +
	       RSN_REPEAT_EVENT * count_events(unit);
}

/* Whether all times are in the range in which they can be summed. */
static bool has_good_times(const struct rsn_repeat *repeat, const struct unit *unit)
{
	size_t slot_cnt = count_slots(unit), event_cnt = count_events(unit);
	const int64_t *number = repeat->numbers;
	uint64_t most = (uint64_t)number[0] | (uint64_t)number[1];

	number += RSN_REPEAT_SESSION;
	for (size_t i = 0; i < slot_cnt; i++, number += RSN_REPEAT_SLOT)
		most |= number[1];
	for (size_t i = 0; i < event_cnt; i++, number += RSN_REPEAT_EVENT)
		most |= number[1];
	return most < (uint64_t)max_time;
}

static enum outcome write_session(struct rsn_repeat *repeat,
				  const struct rsn_repeat_template *template,
				  struct rsn_repeat_found *found)
{
	size_t before = repeat->text.size, widths[MAX_COLUMNS] = { 0 }, width = 0;
	const struct rsn_repeat_piece *pieces = template->pieces;
	struct buffer *text = &repeat->text;
	enum outcome outcome = WRITTEN;
	struct cell *cell;

	/* write column cells to a buffer first, because their widths decide the column widths */
	repeat->cells.size = repeat->cell_places.size = 0;
	for (uint32_t i = 0; i < template->piece_cnt; i++) {
		struct cell made = { .at = repeat->cells.size };

		if (pieces[i].column < 0)
			continue;
		outcome =
			put_piece(repeat, &repeat->cells, template, &pieces[i], &made.width, found);
		if (outcome != WRITTEN)
			return outcome;
		made.size = repeat->cells.size - made.at;
		put(&repeat->cell_places, (const char *)&made, sizeof(made));
		if (widths[pieces[i].column] < made.width)
			widths[pieces[i].column] = made.width;
	}
	if (repeat->cells.failed || repeat->cell_places.failed)
		return NOT_LIKE_IT;
	cell = (struct cell *)repeat->cell_places.data;
	for (uint32_t i = 0; i < template->piece_cnt && outcome == WRITTEN; i++) {
		if (pieces[i].column < 0) {
			outcome = put_piece(repeat, text, template, &pieces[i], &width, found);
			continue;
		}
		width = widths[pieces[i].column];
		if (pieces[i].kind == RSN_REPEAT_DASHES) {
			put_many(text, '-', width);
		} else if (pieces[i].kind != RSN_REPEAT_WIDEN) {
			if (!pieces[i].is_left)
				put_many(text, ' ', width - cell->width);
			put(text, repeat->cells.data + cell->at, cell->size);
			if (pieces[i].is_left)
				put_many(text, ' ', width - cell->width);
		}
		cell++;
	}
	if (outcome != WRITTEN || text->failed) {
		text->size = before;
		return outcome == WRITTEN ? NOT_LIKE_IT : outcome;
	}
	return WRITTEN;
}

static void count_use(struct rsn_repeat *repeat, uint32_t number, struct rsn_repeat_found *found)
{
	uint32_t place = repeat->place[number];

	if (place >= found->used_cnt || repeat->used[place] != number) {
		place = repeat->place[number] = found->used_cnt++;
		repeat->used[place] = number;
		repeat->times[place] = 0;
	}
	repeat->times[place]++;
}

/*
 * Write as many sessions at the start of `data` as possible. `lesson_cnt` is the number of
 * templates that Python is willing to add.
 */
int rsn_repeat_run(struct rsn_repeat *repeat, const char *data, size_t size, uint32_t lesson_cnt,
		   struct rsn_repeat_found *found)
{
	bool is_writing = true;
	size_t at = 0;

	*found = (struct rsn_repeat_found){ .used = repeat->used, .times = repeat->times };
	repeat->text.size = 0;
	if (lesson_cnt > RSN_REPEAT_CANDIDATES)
		lesson_cnt = RSN_REPEAT_CANDIDATES;
	while (at < size) {
		struct template **template = NULL;
		enum outcome outcome = NOT_LIKE_IT;
		struct unit unit;
		uint16_t *place;
		uint64_t hash;

		if (!next_unit(data + at, size - at, &unit)) {
			at = size; /* damaged: Python reports the reason */
			break;
		}
		hash = read_unit(repeat, &unit);
		if (hash)
			template = find(repeat, hash, &place);
		if (template && (*template)->is.piece_cnt && has_good_times(repeat, &unit)) {
			if (!is_writing || repeat->text.size >= max_text)
				break;
			outcome = write_session(repeat, &(*template)->is, found);
		}
		if (outcome == NEEDS_WORD)
			break;
		if (outcome == WRITTEN) {
			count_use(repeat, template - repeat->templates, found);
			found->written = at + unit.size;
		} else {
			is_writing = false;
		}
		if (hash && !template && found->candidate_cnt < lesson_cnt) {
			uint64_t *seen = &repeat->seen[hash % SLOTS];

			if (*seen == hash)
				found->candidates[found->candidate_cnt++] =
					(struct rsn_repeat_place){ at, unit.size };
			/* do not report it again in this run */
			*seen = *seen == hash || *seen == ~hash ? ~hash : hash;
		}
		at += unit.size;
	}
	found->unknown = at;
	found->text = repeat->text.data;
	found->text_size = repeat->text.size;
	return 0;
}

/* Whether every number, text and column that the template refers to exists in such a session. */
static bool is_sound(const struct unit *unit, const struct rsn_repeat_template *template)
{
	const uint32_t number_cnt = count_numbers(unit);

	for (uint32_t i = 0; i < template->term_cnt; i++)
		if (!template->terms[i] || magnitude(template->terms[i]) > number_cnt)
			return false;
	for (uint32_t i = 0; i < template->piece_cnt; i++) {
		const struct rsn_repeat_piece *piece = &template->pieces[i];
		uint64_t end = (uint64_t)piece->first + piece->count;
		bool is_good = true;

		if (piece->kind == RSN_REPEAT_TEXT)
			is_good = end <= template->text_size;
		else if (piece->kind >= RSN_REPEAT_NUMBER && piece->kind <= RSN_REPEAT_US3)
			is_good = end <= template->term_cnt && piece->count <= max_terms;
		else if (piece->kind >= RSN_REPEAT_TIME6)
			is_good = piece->first < number_cnt;
		else if (piece->kind == RSN_REPEAT_WIDEN)
			is_good = piece->first <= max_unit;
		if (!is_good || piece->column >= MAX_COLUMNS)
			return false;
	}
	return true;
}

static void forget_templates(struct rsn_repeat *repeat)
{
	while (repeat->template_cnt)
		free(repeat->templates[--repeat->template_cnt]);
	memset(repeat->by_key, 0, sizeof(repeat->by_key));
	repeat->template_bytes = 0;
}

static void forget_words(struct rsn_repeat *repeat)
{
	while (repeat->word_cnt)
		free(repeat->words[--repeat->word_cnt].text);
	memset(repeat->by_value, 0, sizeof(repeat->by_value));
}

/*
 * Add a template for sessions similar to the one session in `data`. Returns its number; 0 means
 * that all other templates were dropped. Returns -EINVAL if the session or a reference in the
 * template is invalid, -EEXIST if a template for it exists, or -ENOMEM.
 */
int rsn_repeat_learn(struct rsn_repeat *repeat, const char *data, size_t size,
		     const struct rsn_repeat_template *from)
{
	size_t pieces = from->piece_cnt * sizeof(*from->pieces);
	size_t terms = from->term_cnt * sizeof(*from->terms), bytes;
	struct template *made;
	struct unit unit;
	uint16_t *place;
	uint64_t hash;
	char *to;

	if (!next_unit(data, size, &unit) || unit.size != size)
		return -EINVAL;
	hash = read_unit(repeat, &unit);
	if (!hash)
		return -EINVAL;
	if (!is_sound(&unit, from))
		return -EINVAL;
	if (find(repeat, hash, &place))
		return -EEXIST;
	bytes = sizeof(*made) + repeat->key.size + pieces + terms + from->text_size;
	if (repeat->template_cnt == MAX_TEMPLATES ||
	    repeat->template_bytes + bytes > max_template_bytes) {
		forget_templates(repeat);
		find(repeat, hash, &place);
	}
	made = malloc(bytes);
	if (!made)
		return -ENOMEM;
	to = (char *)(made + 1);
	*made = (struct template){ hash, repeat->key.size, to, *from };
	to = mempcpy(to, repeat->key.data, repeat->key.size);
	made->is.pieces = (void *)to;
	to = mempcpy(to, from->pieces, pieces);
	made->is.terms = (void *)to;
	to = mempcpy(to, from->terms, terms);
	made->is.texts = to;
	memcpy(to, from->texts, from->text_size);
	repeat->template_bytes += bytes;
	repeat->templates[repeat->template_cnt++] = made;
	*place = repeat->template_cnt;
	return repeat->template_cnt - 1;
}

/* Add the text of a function's result, or of a second if function is -1. `width` is in columns. */
int rsn_repeat_learn_word(struct rsn_repeat *repeat, int64_t function, int64_t value,
			  const char *text, size_t size, size_t width)
{
	char *copy = malloc(size + 1);
	uint16_t *place;

	if (!copy)
		return -ENOMEM;
	memcpy(copy, text, size);
	if (repeat->word_cnt == MAX_WORDS)
		forget_words(repeat);
	if (find_word(repeat, function, value, &place)) {
		free(copy);
		return -EEXIST;
	}
	repeat->words[repeat->word_cnt++] = (struct word){ function, value, size, width, copy };
	*place = repeat->word_cnt;
	return 0;
}

#define IGNORE(mask, type, member)                                \
	memset((char *)(mask) + offsetof(struct type, member), 0, \
	       sizeof(((struct type *)0)->member))

static void make_masks(struct masks *masks, bool by_process)
{
	memset(masks, 0xff, sizeof(*masks));
	IGNORE(masks->session, rsn_session, start_ts);
	IGNORE(masks->session, rsn_session, emit_ts);
	IGNORE(masks->session, rsn_session, tid);
	if (!by_process)
		IGNORE(masks->session, rsn_session, tgid);
	IGNORE(masks->session, rsn_session, cpu);
	IGNORE(masks->slot, rsn_slot, result);
	IGNORE(masks->slot, rsn_slot, latency);
	/* sessions that fail with different errors are not similar */
	IGNORE(masks->failed_slot, rsn_slot, latency);
	IGNORE(masks->event, rsn_event, result);
	IGNORE(masks->event, rsn_event, ts);
	IGNORE(masks->event, rsn_event, cpu);
	IGNORE(masks->part, rsn_part, start_ts);
	IGNORE(masks->part, rsn_part, tid);
}

struct rsn_repeat *rsn_repeat_new(int by_process, int64_t clock)
{
	struct rsn_repeat *repeat = calloc(1, sizeof(*repeat));
	/* numbers of the session; each other number takes at least 8 bytes of its record */
	const size_t numbers = max_unit / 8 + RSN_REPEAT_SESSION;

	if (!repeat)
		return NULL;
	make_masks(&repeat->masks, by_process);
	repeat->clock = clock;
	repeat->numbers = malloc(numbers * sizeof(*repeat->numbers));
	if (!repeat->numbers) {
		free(repeat);
		return NULL;
	}
	return repeat;
}

void rsn_repeat_free(struct rsn_repeat *repeat)
{
	if (!repeat)
		return;
	forget_templates(repeat);
	forget_words(repeat);
	free(repeat->key.data);
	free(repeat->text.data);
	free(repeat->cells.data);
	free(repeat->cell_places.data);
	free(repeat->numbers);
	free(repeat);
}
