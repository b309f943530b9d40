// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "repeat.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

enum {
	SESSION_RECORD = 1, /* enum rsn_record_type of records.h */
	EVENTS_RECORD = 2,
	FAILED = 1, /* RSN_SESSION_ERROR */
	MAX_TEMPLATES = 1024,
	MAX_WORDS = 1 << 13,
	SLOTS = 1 << 14, /* of a hash table: a power of two, more than there are entries */
	MAX_COLUMNS = 8,
};

static const size_t max_template_bytes = 8 << 20;
static const size_t max_text = 256 << 10;
static const size_t max_unit = 64 << 10;
/* Sums of so many times stay within 64 bits, half of them being subtracted. */
static const int64_t max_time = 1LL << 55;
static const uint32_t max_terms = 256;
/* Up to here a double has three digits behind the point of ns in us, as Python writes them. */
static const int64_t max_us3 = 1LL << 50;
static const int64_t ns_per_s = 1000000000;

struct template
{
	uint64_t hash;
	size_t key_size;
	char *key; /* one allocation, in which all of the rest is */
	struct rsn_repeat_template is;
};

struct word {
	int64_t function;
	int64_t value;
	size_t size;
	size_t width;
	char *text;
};

/* A session's record, and before it its events, if it has some. */
struct unit {
	const char *part;
	const char *session;
	uint32_t part_size;
	uint32_t session_size;
	size_t size; /* of both, padding included; of any other record if there is no session */
};

struct cell {
	size_t at; /* in `cells` */
	size_t size;
	size_t width;
};

struct buffer {
	char *data;
	size_t size;
	size_t room;
	bool failed;
};

struct rsn_repeat {
	struct rsn_repeat_layout layout;
	struct template *templates[MAX_TEMPLATES];
	uint32_t template_cnt;
	size_t template_bytes;
	uint16_t by_key[SLOTS]; /* number of a template, from 1 */
	struct word words[MAX_WORDS];
	uint32_t word_cnt;
	uint16_t by_value[SLOTS]; /* number of a word, from 1 */
	uint64_t seen[SLOTS]; /* hashes of sessions without a template */
	uint32_t used[MAX_TEMPLATES], times[MAX_TEMPLATES], place[MAX_TEMPLATES];
	struct buffer key, text, cells, cell_places;
	int64_t *numbers;
	size_t number_room;
};

static bool reserve(struct buffer *buffer, size_t more)
{
	size_t room = buffer->room ? buffer->room : 4096;
	char *data;

	if (buffer->size + more <= buffer->room)
		return true;
	while (room < buffer->size + more)
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
	if (!reserve(buffer, size))
		return;
	memcpy(buffer->data + buffer->size, data, size);
	buffer->size += size;
}

static void put_many(struct buffer *buffer, char c, size_t size)
{
	if (!reserve(buffer, size))
		return;
	memset(buffer->data + buffer->size, c, size);
	buffer->size += size;
}

/* At least `digits` of them, zeros in front. */
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

static int64_t number_at(const char *data, const struct rsn_repeat_field *field)
{
	uint16_t two;
	int64_t eight;

	if (field->size == sizeof(two)) {
		memcpy(&two, data + field->at, sizeof(two));
		return two;
	}
	if (field->size == sizeof(uint32_t))
		return u32_at(data + field->at);
	memcpy(&eight, data + field->at, sizeof(eight));
	return eight;
}

/* Where the record at `data` ends, 0 if it is damaged. */
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

/* False if what is there is damaged. */
static bool next_unit(const struct rsn_repeat *repeat, const char *data, size_t size,
		      struct unit *unit)
{
	const struct rsn_repeat_layout *layout = &repeat->layout;
	size_t end = record_end(data, size), next;
	const char *session = data;

	*unit = (struct unit){ .size = end };
	if (!end)
		return false;
	if (u32_at(data) == EVENTS_RECORD) {
		next = record_end(data + end, size - end);
		session = data + end;
		if (!next || u32_at(session) != SESSION_RECORD ||
		    u32_at(data + 4) < layout->part_size ||
		    u32_at(session + 4) < layout->session_size ||
		    number_at(data, &layout->part_start) !=
			    number_at(session, &layout->numbers[0]) ||
		    number_at(data, &layout->part_tid) != number_at(session, &layout->numbers[2]))
			return true;
		unit->part = data;
		unit->part_size = u32_at(data + 4);
		unit->size += next;
	} else if (u32_at(data) != SESSION_RECORD || u32_at(data + 4) < layout->session_size) {
		return true;
	}
	unit->session = session;
	unit->session_size = u32_at(session + 4);
	return true;
}

/* Adds `cnt` structs to the key, without the bytes in which equal sessions may differ. */
static uint64_t add_masked(struct buffer *key, uint64_t hash, const char *data, size_t cnt,
			   const uint64_t *mask, size_t size)
{
	uint64_t *words = (uint64_t *)(key->data + key->size);

	for (size_t i = 0; i < cnt; i++)
		for (size_t at = 0; at < size / 8; at++, data += 8, words++) {
			memcpy(words, data, 8);
			*words &= mask[at];
			hash = mixed(hash, *words);
		}
	key->size += cnt * size;
	return hash;
}

static int64_t *add_numbers(int64_t *numbers, const char *data, size_t cnt, size_t size,
			    const struct rsn_repeat_field *fields, size_t field_cnt)
{
	for (size_t i = 0; i < cnt; i++, data += size)
		for (size_t field = 0; field < field_cnt; field++)
			*numbers++ = number_at(data, &fields[field]);
	return numbers;
}

/* The key of a session, and its numbers; its hash, 0 if it is none for a template. */
static uint64_t read_unit(struct rsn_repeat *repeat, const struct unit *unit)
{
	const struct rsn_repeat_layout *layout = &repeat->layout;
	const struct rsn_repeat_field *fields = layout->numbers;
	static const uint64_t all = ~0ULL;
	size_t slot_cnt, event_cnt = 0, slots, rest;
	const char *session = unit->session;
	struct buffer *key = &repeat->key;
	int64_t *numbers;
	uint64_t hash;
	bool failed;

	if (!session || unit->size > max_unit || unit->session_size % 8)
		return 0;
	slot_cnt = number_at(session, &layout->slot_cnt);
	failed = number_at(session, &layout->flags) & FAILED;
	slots = slot_cnt * layout->slot_size;
	if (layout->session_size + slots > unit->session_size)
		return 0;
	rest = unit->session_size - layout->session_size - slots;
	if (unit->part) {
		event_cnt = (unit->part_size - layout->part_size) / layout->event_size;
		if (layout->part_size + event_cnt * layout->event_size != unit->part_size)
			return 0;
	}
	key->size = 0;
	if (!reserve(key, unit->size))
		return 0;
	hash = add_masked(key, 1, session, 1, layout->session_mask, layout->session_size);
	session += layout->session_size;
	hash = add_masked(key, hash, session, slot_cnt,
			  failed ? layout->failed_slot_mask : layout->slot_mask, layout->slot_size);
	hash = add_masked(key, hash, session + slots, rest / 8, &all, 8);
	if (unit->part) {
		hash = add_masked(key, hash, unit->part, 1, layout->part_mask, layout->part_size);
		hash = add_masked(key, hash, unit->part + layout->part_size, event_cnt,
				  layout->event_mask, layout->event_size);
	}
	numbers = repeat->numbers;
	numbers = add_numbers(numbers, unit->session, 1, 0, fields, RSN_REPEAT_SESSION);
	fields += RSN_REPEAT_SESSION;
	numbers =
		add_numbers(numbers, session, slot_cnt, layout->slot_size, fields, RSN_REPEAT_SLOT);
	fields += RSN_REPEAT_SLOT;
	if (unit->part)
		add_numbers(numbers, unit->part + layout->part_size, event_cnt, layout->event_size,
			    fields, RSN_REPEAT_EVENT);
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
	int64_t sum = 0;

	for (uint32_t i = 0; i < piece->count; i++, term++)
		sum += *term > 0 ? repeat->numbers[*term - 1] : -repeat->numbers[-*term - 1];
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
		number = repeat->numbers[piece->first] + repeat->layout.clock;
		if (number < 0)
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

static size_t count_events(const struct rsn_repeat *repeat, const struct unit *unit)
{
	const struct rsn_repeat_layout *layout = &repeat->layout;

	return unit->part ? (unit->part_size - layout->part_size) / layout->event_size : 0;
}

static uint32_t count_numbers(const struct rsn_repeat *repeat, const struct unit *unit)
{
	return RSN_REPEAT_SESSION +
	       RSN_REPEAT_SLOT * number_at(unit->session, &repeat->layout.slot_cnt) +
	       RSN_REPEAT_EVENT * count_events(repeat, unit);
}

/* Times are what they should be, so that they can be summed. */
static bool has_good_times(const struct rsn_repeat *repeat, const struct unit *unit)
{
	size_t slot_cnt = number_at(unit->session, &repeat->layout.slot_cnt);
	size_t event_cnt = count_events(repeat, unit);
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

	/* First what is in columns, aside: it says how wide they are. */
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

/* Writes what it can of the beginning of `data`; `lesson_cnt` is how much Python wants to teach. */
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

		if (!next_unit(repeat, data + at, size - at, &unit)) {
			at = size; /* damaged: Python tells how */
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
					(struct rsn_repeat_field){ at, unit.size };
			/* not again in this run */
			*seen = *seen == hash || *seen == ~hash ? ~hash : hash;
		}
		at += unit.size;
	}
	found->unknown = at;
	found->text = repeat->text.data;
	found->text_size = repeat->text.size;
	return 0;
}

/* Whether the template names nothing that a session like this one lacks. */
static bool is_sound(const struct rsn_repeat *repeat, const struct unit *unit,
		     const struct rsn_repeat_template *template)
{
	const uint32_t number_cnt = count_numbers(repeat, unit);

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
 * Writes what is like the one session in `data` by `template` from now on. Its number; with 0 all
 * others are forgotten. -EINVAL: there is no such session or number, -EEXIST: it is known, -ENOMEM.
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

	if (!next_unit(repeat, data, size, &unit) || unit.size != size)
		return -EINVAL;
	hash = read_unit(repeat, &unit);
	if (!hash)
		return -EINVAL;
	if (!is_sound(repeat, &unit, from))
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

/* The word of a result of a function, or of a second (function is -1); `width` in columns. */
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

struct rsn_repeat *rsn_repeat_new(const struct rsn_repeat_layout *layout)
{
	const size_t sizes[] = { layout->session_size, layout->slot_size, layout->slot_size,
				 layout->event_size, layout->part_size };
	const uint64_t **masks[ARRAY_SIZE(sizes)];
	struct rsn_repeat *repeat = calloc(1, sizeof(*repeat));
	/* each number takes two bytes of its record at least */
	const size_t numbers = max_unit / 2 + RSN_REPEAT_FIELDS;
	size_t total = 0;
	char *to;

	if (!repeat)
		return NULL;
	repeat->layout = *layout;
	masks[0] = &repeat->layout.session_mask;
	masks[1] = &repeat->layout.slot_mask;
	masks[2] = &repeat->layout.failed_slot_mask;
	masks[3] = &repeat->layout.event_mask;
	masks[4] = &repeat->layout.part_mask;
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
		total += sizes[i];
	repeat->numbers = malloc(numbers * sizeof(*repeat->numbers) + total);
	if (!repeat->numbers) {
		free(repeat);
		return NULL;
	}
	to = (char *)(repeat->numbers + numbers);
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		memcpy(to, *masks[i], sizes[i]);
		*masks[i] = (const uint64_t *)to;
		to += sizes[i];
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
