#!/usr/bin/env python3
"""Records how evaluation harnesses ask, and how they read answers, for the tests of the room accuracy.

It makes up questions in the forms in which tasks are published, answers a harness's requests from a server on this
machine with the odd replies below, and writes what was asked and what the harness made of each reply:

    harness.py questions DIR                   the files of questions
    harness.py lm-eval DIR NAME                in an environment with lm-eval[api,math]
    harness.py inferencex DIR NAME CHECKOUT    as lm-eval, with InferenceX's tasks and hooks of a checkout
    harness.py simple-evals DIR NAME CHECKOUT  with openai, pandas, jinja2, and a checkout of openai/simple-evals
    harness.py evalscope DIR NAME              in an environment with evalscope
    harness.py sglang DIR NAME                 in an environment with sglang
    harness.py vllm DIR NAME CHECKOUT          with aiohttp, numpy, regex, requests, tqdm, and tests/evals/gsm8k of vllm-project/vllm

InferenceX takes the lm-eval of the commit that its benchmark_lib.sh names. It writes DIR/NAME.jsonl, and reaches nothing but itself.
docs/development.md says how. With DRAWN=2000 in the environment so many replies of each form are drawn beside those that stand here.
"""
import csv, http.server, json, os, random, re, sys, tempfile, threading

# Right answer, and what is replied.
NUMBERS = [
    ("18", "She has 16 - 3 - 4 = 9.\n9 * 2 = <<9*2=18>>18\n#### 18"), ("18", "#### 18."), ("1,234", "So 1,234 in all.\n#### 1,234"),
    ("1234", "That is 1,234.00 dollars."), ("1234", "#### $1,234"), ("-5", "#### -5"), ("-5", "The change is −5 degrees.\n#### −5"),
    ("5", "The answer is **5**."), ("42", r"The answer is \boxed{42}."), ("42", r"Thus $\frac{84}{2} = \boxed{42}$, not 43"),
    ("7", "#### 8\nWait.\n#### 7"), ("7", "#### 7\n#### 8"), ("7", "First 7, then 8"), ("3", "It takes 3 hours."), ("3", "three"), ("3", ""),
    ("3", "   \n"), ("12", "12 apples and 3 pears make 15"), ("20", "20%"), ("20", "$20.00"), ("20", "$20."), ("20", "20.0"), ("2", "1/2"),
    ("7", "007"), ("0", "000"), ("3", "٣"), ("1000000", "1,000,000"), ("1000000", "1 000 000"), ("10", "10,"), ("10", "about 10, 11, 12."),
    ("10", "####10"), ("10", "### 10"), ("10", "#### The answer is 10"), ("10", "#### 10 apples"), ("10", "#### 10\n\nQuestion: How many?"),
    ("6", "x = 6; y = -"), ("6", "...6..."), ("6", "$$$"), ("6", "<think>maybe 7</think>6"), ("65", "Answer: 65 km/h at 3.5 h"),
    ("9", "#### 9,"), ("9", "#### .9"), ("9", "9²"), ("15", "15\u00a0"), ("1500", "1.5e3"), ("16", "ANSWER: SIXTEEN (16)"), ("18", "#### 18.\n"),
    ("11", "1 1"), ("-3", "-3"), ("3", "-3"), ("3", "3-"), ("100", "100.\n\n"), ("99999999999999999999", "#### 99999999999999999999"),
    # more of the same: markup, separators, signs, other digits, several answers
    ("18", "#### **18**"), ("18", "**#### 18**"), ("18", r"#### \$18"), ("18", "#### $18.00"), ("18", "#### 18 dollars"), ("18", "#### 18dollars"), ("18", "####\n18"),
    ("18", "####  18"), ("18", "####\u00a018"), ("18", "#### 18#### 19"), ("18", "#### 19 #### 18"), ("18", r"\boxed{\$18}"), ("18", r"\boxed{18.}"), ("18", r"\(18\)"),
    ("18", r"\[x = 18\]"), ("18", r"\text{18}"), ("18", r"18\%"), ("18", "18% of 200 is 36"), ("18", "`18`"), ("18", "*18*"), ("18", "***18***"), ("18", "__18__"),
    ("1234", r"\boxed{1{,}234}"), ("1234", r"\boxed{1\,234}"), ("1234", "1'234"), ("1234", "1_234"), ("1234", "1\u202f234"), ("1234", "1.234,00"), ("1234", "12,34"),
    ("1234", "1, 234"), ("1234", "1,\n234"), ("1234", "#### 1, 234"), ("1234", "#### 1,234."), ("1234", "1,234,"), ("123", "1,2,3"), ("1,234", "$1,234.56 in all"),
    ("0", "-0"), ("0", "0.0"), ("0", "#### 0"), ("0", "zero"), ("0", "00"), ("-5", "#### -$5"), ("-5", "#### $-5"), ("-5", "(5)"), ("-5", "minus 5"), ("-5", "#### - 5"),
    ("-5", "x = -5."), ("5", "#### +5"), ("5", "–5"), ("5", "5–7"), ("5", "7-5"), ("5", "5/7"), ("5", "7:05"), ("3", "½ of 6 is 3½"), ("3", "３"), ("3", "#### ３"),
    ("3", "3\ufe0f\u20e3"), ("3", "③"), ("3", "Ⅲ"), ("3", "x₃"), ("3", "10^3"), ("3", "3rd"), ("3", "3CO2"), ("3", "v1.2.3"), ("3", "٣ or 3"), ("3", "3 or ٣"), ("3", "12٣"),
    ("3", "३"), ("3", "𝟑"), ("3", "3\u200b"), ("12", "1\u200b2"), ("12", "1\u00ad2"), ("100", "1e2"), ("100", "#### 1e2"), ("255", "0xff"), ("10", "0b10"), ("7", "7😀"), ("7", "7°"),
    ("5", "The answer is 5.\n\nQuestion: 7 more?"), ("5", "#### 5\n#### "), ("5", "#### \n#### 5"), ("5", "####"), ("5", "#### none"), ("5", "#### N/A, but 5"), ("5", "#### five"),
    ("2", "#### 4/2"), ("2", "#### 2.0"), ("2", "#### 2."), ("2", "#### 2, or 3"), ("2", "####3 then 2"), ("2", " #### 2"), ("2", "##### 2"), ("2", "# 2"), ("2", "#### = 2"),
    ("2", "2\r\n"), ("2", "#### 2\r"), ("2", "\t2\t"), ("2", "...2"), ("2", "2..."), ("2", "$2,"), ("2", ".2"), ("2", "-.2"), ("2", "2.-"), ("2", "--2"), ("2", "$-2"), ("2", "-$2"),
    ("2", "$$2$$"), ("2", "2$"), ("2", "2 $ 3 $"), ("2", "2,,,"), ("2", "2 ,"), ("2", "2 . ."), ("2", ". , $"), ("2", "2. 3."), ("2", "1. First\n2. Second"), ("2", "2\x0b3"), ("2", "2\x1c3"),
    ("2", "2\u2028#### 3"), ("2", "#### -2.50,"), ("2", "#### 2\n\n\n#### three"), ("1234", "#### 1234,"), ("1234", "#### ,1234"), ("1234", "#### 1.234"), ("1,234", "#### $1,234.00."),
]
# {L} is the letter of the right choice, {l} the same as a small one, {W} that of another, {T} the text of the right choice.
CHOICES = [
    "Answer: {L}", "answer: {L}", "ANSWER : {L}", "Answer: {l}", "Answer: ({L})", "Answer: **{L}**", "**Answer:** {L}", "**Answer: {L}**", "Answer: ${L}$",
    r"Answer: $\boxed{{L}}$", r"Answer: \boxed{{L}}", r"\boxed{{L}}", r"Answer: \text{{L}}", "{L}", " {L}", "{L}.", "({L})", "{l}", "{L}\nbecause {W} is not",
    "\n{L}", "The answer is ({L}).", "The answer is ({L})", "The answer is {L}.", "The answer is {L}", "the answer is ({L})", "So the answer is {l}.",
    "answer is {W}? No: the answer is {L}.", "The answer is {T}.", "It is {T}", "({W}) is wrong, ({L}) is right", "({L}) is right, ({W}) is wrong",
    "Answer: {W}\nAnswer: {L}", "Answer: {L}\nAnswer: {W}", "", "   ", "I do not know.", "None of these", "Option {L}", "{L}) {T}", "Choice: {L}", ":{L}",
    "Answer:\n{L}", "Réponse: {L}", "答案：{L}", "答案: {L}", "Antwort: {L}", "Answer: Ａ", "الإجابة: أ", "Answer: E", "Answer: letter {L}", "A good answer: {L}",
    "The answer is \nThe answer is ({L}). Yes", "The answer is é", "The answer is", "{T} {W}", "<think>Answer: {W}</think>Answer: {L}",
    "Answer: {L}, as a matter of fact", "_{L}_", "({L}", "{L}1", "a", "The answer is a secret", "THE ANSWER IS ({L})", "Answer: {L}.", "answer is {L}{W}",
    "Anſwer: {L}", "Answer \u00a0: {L}", "{T}", "The {T}, not the other.", "RIGHT", "\t{L}\r\n", "answer is ({L}", "answer is **{L}**", "({L})b", "{L}_", "x({L})", "({L})({W})", "a) {L}", "é{L}", "({L}) ({l})",
    # more of the same: signs before a letter, brackets, several letters, other words and alphabets
    "Answer - {L}", "Answer={L}", "Answer:{L}", "Answer:\t{L}", "Answer: [{L}]", "Answer: <{L}>", "Answer: '{L}'", "Answer: \"{L}\"", "Answer: `{L}`", "Answer: *{L}*", "Answer: {L} or {W}",
    "Answer: {L}, {W}", "Answer: {L}/{W}", "Answer: {L}{W}", "Answer: {L} and {W}", "Answer: {L} and more", "Answer: {W} and {L}", "Answer: ({L}, {W})", "Answer: {L})", "Answer: $LETTER", "Answer: $ {L} $",
    "ANSWER: {L}", "ANSWER: [{L}]", "ANSWER: ({L})", "ANSWER: **{L}**", "ANSWER: {l}", "ANSWER:\n{L}", "ANSWER: {L}\nANSWER: {W}", "ANSWER: {L}\nANSWER: none", r"ANSWER: $\boxed{{L}}$", "ANSWER: {L}) {T}",
    "ANSWER: The {L}", "ANSWER: {L} because {W} is wrong", "ANSWER：{L}", "ANSWER: {L} or {W}", "ANSWER: {L},{W}", "ANSWER: {L} {W}", "ANSWER: ({L}) {W}", "ANSWER: 【{L}】", "ANSWER: [{L}、{W}]", "ANSWER: {L}1",
    "ANSWER: {T}", "ANSWER: 1", "ANSWER: {L} or not", "ANSWER: {L} or", "ANSWER: x, {L}", r"ANSWER: \text{{L}}", r"ANSWER: \(\mathrm{{L}}\)", "ANSWER: ", "ANSWER:", "ANSWER: {L}\u00e9", "ANSWER: {L}_", "ANSWERS: {L}",
    "Final answer: {L}", "The correct answer is {L}", "The correct answer is **{L}**.", "The answer is: {L}", "The answer is ({L}), not ({W})", "The answer is [{L}]", "The answer is ({L}).\nThe answer is ({W}).",
    "The answer is ({L}) {T}.", "The answer is {L})", "The answer is  {L}. ", "The answer is\n{L}.", "The answer is {l}.", "The answer is -{L}-.", "The answer is {L}\r\n.", "answer is  ({L})", "answer is \n({L})",
    "({l})", "[{L}]", "<{L}>", "\"{L}\"", "{L}:", "{L}-{T}", "{L}\r\n", "{L}\n\n{W}", "{L} {W}", "{L},{W}", "Both ({L}) and ({W})", "E", "(E)", "J", "(Z)", "{T}.", "{T}\n{T}", "\u201c{T}\u201d", "({L}) {T} ({W})",
    "not ({W}), not {W}: {L}", "I", "A", "An answer", "Α", "А", "Answer: А", "Answer: Α", "x: {W} :{L}", ":\n{L}", ":\u00a0{L}", "( {L} )", "(({L}))", "({L}{W})", "d'{L}", "{L}'s", "{L}\u0301", "{L}²", "-{L}-", "'{L}'",
    "答え: {L}", "答案是{L}", "উত্তর: অ", "উত্তর: {L}", "Respuesta: {L}", "Antwort: {L}.", "정답: {L}", "Jibu: {L}", "Àṣàyàn: {L}", "Answer\u200b: {L}", "Answer:\u3000{L}", "Answer:\u200b\u200b\u200b\u200b\u200b\u200b{L}",
    "Answer: {W}\n答案: {L}", "答案: {W}\nAnswer: {L}", "Answer: ঢ", "Answer: د", "RÉPONSE: {L}", "antwort: {l}", r"Answer: $\text{{L}}$", r"Answer: \(\boxed{\text{{L}}}\)", r"Answer: $\mathrm{{L}}$", "Answer: {{L}}",
    r"\boxed{\text{{L}}}", r"$\boxed{{L}}$", r"The answer is $\boxed{{L}}$.", "**{L}**", "**({L})**", "# {L}", "- {L}", "1. {L}", "Answer:\n\n{L}", "Answer\n: {L}", "Answer :\n {L}", "answer is {L} . answer is {W}",
]
# Right answer, and what is replied. AIME takes those whose right answer is a whole number.
LATEX = [
    ("70", r"The answer is $\boxed{70}$."), ("70", r"\boxed{070}"), ("70", "$70$"), ("70", "70"), ("70", "The answer is 70."), ("70", r"\boxed 70$ and so"),
    ("70", r"$x = 70$"), ("70", r"\boxed{x=70}"), ("70", r"\boxed{\text{ }70}"), ("70", r"\boxed{70\text{ cm}}"), ("70", r"\boxed{70^\circ}"), ("70", r"\boxed{70"),
    ("70", r"\fbox{70}"), ("70", r"\boxed{69} then \boxed{70}"), ("70", r"\boxed{70} then \boxed{69}"), ("70", ""), ("70", "$"), ("70", "$70"), ("70", "$$70$$"),
    ("70", r"\boxed{\boxed{70}}"), ("70", r"\boxed{7{0}}"), ("70", r"\boxed{140/2}"), ("70", r"\boxed{ 70 }"), ("70", r"\boxed{70\%}"), ("70", "**70**"),
    ("70", r"\boxed70"), ("70", r"$a$ is $70$"), ("70", "\\boxed{7\n0}"), ("70", r"\boxed{\$70}"), ("70", r"\boxed{70.0}"), ("70", "<think>\\boxed{1}</think>$70$"),
    (r"\frac{1}{2}", "$0.5$"), (r"\frac{1}{2}", "$1/2$"), (r"\frac{1}{2}", r"$\frac12$"), (r"\frac{1}{2}", r"$\dfrac{1}{2}$"), (r"\frac{1}{2}", r"$\tfrac 12$"),
    (r"\frac{1}{2}", r"$\frac1{2}$"), (r"\frac{1}{2}", r"$\frac{2}{4}$"), (r"\frac{1}{2}", "$.5$"), (r"\frac{1}{2}", r"$\frac$"), (r"\frac{1}{2}", r"$\frac1$"),
    (r"-\frac{3}{4}", "$-3/4$"), (r"-\frac{3}{4}", r"$-\frac34$"), (r"\frac{-3}{4}", "$-3/4$"), (r"\frac{-3}{4}", "$−3/4$"), (r"\sqrt{3}", r"$\sqrt3$"),
    (r"\sqrt{3}", r"$\sqrt{3}$"), (r"\sqrt{3}", r"$\sqrt$"), (r"2\sqrt{3}", r"$2\sqrt 3$"), (r"\left(1, 2\right)", "$(1,2)$"), (r"(1,2)", r"$\left( 1,\! 2 \right)$"),
    (r"x^2+1", "$y = x^2 + 1$"), (r"x^2+1", "$f(x) = x^2+1$"), (r"x^2+1", "$1+x^2$"), ("1,000", "$1000$"), ("1000", "$1,000$"), ("5", r"$5\text{ cm}$"),
    ("5", r"$5\text{ cm}\text{ or so}$"), ("5", r"$5\text{cm}$"), (r"\text{(A)}", r"$\text{(A)}$"), (r"\text{(A)}", "(A)"), ("x/2", "$x/2$"), (r"\frac{x}{2}", "$x/2$"),
    ("x/2", "$ x/2$"), ("+3/4", "$+3/4$"), ("1_0/2", "$1_0/2$"), ("6/4/2", "$6/4/2$"), (r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}", r"$\begin{pmatrix} 1 \\ 2 \end{pmatrix}$"),
    ("0.5", r"$\frac{1}{2}$"), ("50", r"$50\%$"), ("50", r"\$50"), ("2.5", "$ 2 .5$"), ("٣/4", "$٣/4$"), ("007/2", "$007/2$"), ("5", "$ab = 5$"), ("5", "$ab=5$"), ("5", "$abc=5$"), ("5", r"\boxed{}"), ("5", r"\boxed{ 5 }"),
    ("5", "$m=n=5$"), ("5", "$5.$"), ("5", r"$5\!$"), ("5", "$5 $ or $5$"),
    # more of the same: boxes, units, signs, fractions, roots, sets
    ("70", r"\boxed {70}"), ("70", r"\boxed{70}."), ("70", r"$\boxed{70}$ or $\boxed{71}$"), ("70", r"\boxed{\mathbf{70}}"), ("70", r"\boxed{\text{70}}"), ("70", r"\boxed{70 \text{ ways}}"), ("70", r"\boxed{70\ \text{cm}}"),
    ("70", r"\boxed{70,000}"), ("70", r"\boxed{\frac{140}{2}}"), ("70", r"\boxed{+70}"), ("70", r"\boxed{-70}"), ("70", r"\boxed{n = 70}"), ("70", r"\boxed{ab=70}"), ("70", r"\boxed{abc=70}"), ("70", r"\boxed{70=70}"),
    ("70", "$70$ and $"), ("70", "$$\n70\n$$"), ("70", r"\[70\]"), ("70", r"\boxed{70^{\circ}}"), ("70", r"\boxed{７０}"), ("70", r"\boxed{\!70}"), ("70", r"\boxed{70\\}"), ("70", r"\boxed 70"), ("70", r"\boxed 70 $"),
    ("70", r"\boxed"), ("70", r"\boxed{"), ("70", r"\boxed}70{"), ("70", r"\fbox{70} \boxed{71}"), ("70", r"\boxed{71} \fbox{70}"), ("70", r"\boxed{71} \boxed 70$"), ("70", r"\boxed{70}$"), ("70", r"$\boxed{70"), ("70", r"\boxed{{70}}"),
    ("70", r"\boxed{70\dots}"), ("70", r"\boxed{70\text{ a}\text{ b}}"), ("7", "$7.0$"), ("0", "$.0$"), ("0", "$-0$"), ("0", r"\boxed{0}"), ("5", "$ 5$"), ("5", r"\boxed{05}"), ("5", r"\boxed{\frac{5}{1}}"), ("5", r"\boxed{5/1}"), ("5", r"\boxed{10/2}"),
    (r"\frac{1}{2}", r"$\frac 1 2$"), (r"\frac{1}{2}", r"$\frac{1}2$"), (r"\frac{1}{2}", r"$\frac12x$"), (r"\frac{1}{2}", r"$\cfrac{1}{2}$"), (r"\frac{1}{2}", r"$\frac{1} {2}$"), (r"\frac{1}{2}", "$1 / 2$"), (r"\frac{1}{2}", "$0.50$"),
    (r"\frac{1}{2}", "$ 0.5 $"), (r"\frac{1}{2}", "$x=1/2$"), (r"\frac{1}{2}", "$x = 0.5$"), (r"\frac{1}{2}", r"$\frac1\frac2$"), (r"\frac{1}{2}", r"$\left\frac12\right$"), (r"x=\frac{1}{2}", r"$\frac{1}{2}$"), (r"\frac{1}{2}", "$50%$"), (r"\frac{1}{2}", "$-1/-2$"),
    (r"\frac{\sqrt{2}}{2}", r"$\frac{\sqrt2}{2}$"), (r"\frac{\sqrt{2}}{2}", r"$\frac{\sqrt2}2$"), (r"\frac{\sqrt{2}}{2}", r"$\sqrt2/2$"), (r"\sqrt{12}", r"$\sqrt12$"), (r"\sqrt[3]{2}", r"$\sqrt[3]2$"), (r"\sqrt[3]{2}", r"$\sqrt[3]{2}$"), (r"\sqrt{x}", r"$\sqrt x$"),
    (r"\sqrt{3}", r"$\sqrt{ 3 }$"), ("1,2", "$1, 2$"), ("1,2", "$2,1$"), (r"\{1,2\}", r"$\{1, 2\}$"), ("[0,1)", "$[0, 1)$"), (r"(-\infty,0)\cup(0,\infty)", r"$\left(-\infty, 0\right) \cup \left(0, \infty\right)$"), (r"5\%", "$5$"),
    ("5", r"$5 \text{ cm}^2$"), ("5", r"$5\mbox{ cm}$"), ("5", r"$5\,\text{cm}$"), (r"\$5", "$5$"), ("10^{-3}", "$10^{-3}$"), ("2^{10}", "$1024$"), (r"3\pi", r"$3 \pi$"), (r"\text{east}", r"$\text{east}$"), (r"\text{east}", "east"), ("-1", "$−1$"),
    ("-1", "$- 1$"), ("11_2", "$11_{2}$"), (r"90^\circ", "$90$"), ("90", "$90°$"), ("y=2x", "$y = 2x$"), ("2x", "$y=2x$"), ("1/3/5", "$1/3/5$"), ("-1/2", "$-1/2$"), ("1/-2", "$1/-2$"), ("1/ 2", "$1/ 2$"), ("٣/٤", "$٣/٤$"), ("1/0", "$1/0$"),
    ("1/2", "$1/02$"), ("1/2", "$+1/2$"), ("a/b", r"$\frac{a}{b}$"), ("1/x", r"$\frac{1}{x}$"), ("0.25", "$.25$"), ("{.5}", "$ {.5}$"), ("x = .5", "$x = .5$"), ("3.14", "$3.140$"), (r"\left[1,2\right]", "$[1,2]$"), (r"1\!000", "$1000$"), (r"a\\b", r"$a\b$"),
    (r"5\text{ m}", "$5$"), (r"5\text{ m}\text{ n}", r"$5\text{ m}\text{ n}$"), (r"\sqrt", r"$\sqrt$"), (r"\frac", r"$\frac$"), (r"\frac1", r"$\frac1$"), ("1/é", "$1/é$"), ("²/2", "$²/2$"), ("1__0/2", "$1__0/2$"), ("é=5", "$5$"), ("日本語=5", "$5$"), ("日本=5", "$5$"),
]

# What drawn replies are made of.
PIECES = {
    "numbers": ["0", "1", "2", "3", "7", "10", "18", "42", "100", "1234", "1,234", "12,34", "007", "00", "٣", "３", "½", "²", "3.5", ".5", "5.", "1e3", "#### ", "####", "### ", " ", "  ", "\n", "\n\n",
                "$", "-", "−", "–", "+", ",", ".", "%", ":", "/", "*", "**", "(", ")", "[", "]", "{", "}", "=", "<<", ">>", r"\boxed{", "}", r"\$", r"\frac{", r"\text{ cm}", "answer is ", "The answer is ",
                "Answer: ", "Question: ", "dollars", "x", "_", "'", "\u00a0", "\u202f", "\u2028", "\t", "\r\n", "\x0b", "\x1c", "\u200b", "é", "<think>", "</think>", "N/A", "five"],
    "choices": ["{L}", "{L}", "{L}", "{l}", "{W}", "{T}", "({L})", "({W})", "[{L}]", "**{L}**", "A", "B", "C", "D", "E", "J", "a", "é", "1", "_", " ", "  ", "\n", "\n\n", "\t", "\r\n", ".", ",", ":", "：", "-",
                "(", ")", "[", "]", "【", "】", "{", "}", "*", "**", "$", "'", '"', "/", "、", "and", " and ", " or ", " or", "not ", "Answer: ", "Answer:", "answer: ", "ANSWER: ", "ANSWER:", "ANSWER : ", "ANSWERS: ",
                "Answer", "The answer is ", "the answer is ", "answer is ", "answer is (", "The answer is (", "Answer is ", "答案：", "答案: ", "Réponse: ", "Antwort : ", "الإجابة: ", "উত্তর: ", "Respuesta:", "أ", "অ", "Ａ", "ঢ",
                r"\boxed{", r"\text{", r"\mathrm{", r"\(", r"\)", r"\textbf{ ", r"$\boxed{", "}$", "The", "It is ", "other", "right", "other 1", "a third", "because", "I", "\u00a0", "\u200b", "\u2028", "\u0301", "<think>",
                "</think>", "\x0b", "\x1c"],
    "latex": ["$", "$", r"\boxed{", r"\boxed", r"\boxed ", r"\fbox{", "}", "}", "{", "70", "5", "0", "7", "0.5", ".5", "1/2", "1", "2", "/", r"\frac", r"\frac{", r"\dfrac{", r"\tfrac", r"\sqrt", r"\sqrt{", r"\left(",
              r"\right)", "(", ")", ",", r"\!", "\\ ", r"\,", r"\%", r"\$", "%", r"^\circ", r"^{\circ}", r"\text{ cm}", r"\text{cm}", r"\text{ a}", "x", "x=", "x = ", "ab=", "=", "+", "-", "−", " ", "\n", r"\\", r"\pi", "^2",
              "_2", "é", "٣", "_", "."],
}


def draw(many):
    random.seed(1)
    drawn = lambda form: "".join(random.choice(PIECES[form]) for _ in range(random.randint(1, 8)))
    for _ in range(many):
        NUMBERS.append((random.choice(["18", "1234", "1,234", "3", "0", "-5", "42", "7"]), drawn("numbers")))
        CHOICES.append(drawn("choices"))
        LATEX.append((random.choice(["70", "5", "0", "7", r"\frac{1}{2}", r"\sqrt{2}", "x^2+1", "-1", "1/2", "(1,2)", "0.5", "50", r"2\pi"]), drawn("latex")))


draw(int(os.environ.get("DRAWN", 0)))


def write(path, rows):
    with open(path, "w", encoding="utf-8", newline="") as f:
        if path.endswith(".csv"):
            out = csv.DictWriter(f, list(rows[0]))
            out.writeheader()
            out.writerows(rows)
        else:
            f.writelines(json.dumps(r, ensure_ascii=False) + "\n" for r in rows)


def questions(dir):
    def gsm8k(n, what, right):
        return {"question": f"{what} {n}: how many, if 2 & <3> are left?", "answer": f"There are <<1+1=2>>2.\nSo it is so.\n#### {right}"}

    def mmlu(n, what):
        right = n % 4
        return {"question": f" {what} {n}: which of these? ", "subject": ["anatomy", "us_foreign_policy"][n % 2],
                "choices": ["right" + str(n) if i == right else f"other {i} of {n}" for i in range(4)], "answer": right}

    def pro(n, what):
        right, many = n % 9, 3 + n % 8
        right %= many
        return {"question_id": n, "question": f"{what} {n}: which of these?", "options": [f" right{n}" if i == right else f"other {i} " for i in range(many)],
                "answer": "ABCDEFGHIJ"[right], "answer_index": right, "cot_content": f"A: Let's think step by step. It is {n}. The answer is ({'ABCDEFGHIJ'[right]}).",
                "category": ["biology", "computer science"][n % 2], "src": "made up"}

    whole = [(right, reply) for right, reply in LATEX if right.isdigit() and int(right) < 1000]
    write(f"{dir}/gsm8k.jsonl", [gsm8k(n, "Case", r) for n, (r, _) in enumerate(NUMBERS)])
    write(f"{dir}/gsm8k-train.jsonl", [gsm8k(n, "Example", n * n) for n in range(40)])
    write(f"{dir}/mmlu.jsonl", [mmlu(n, "Case") for n in range(len(CHOICES))])
    write(f"{dir}/mmlu-dev.jsonl", [mmlu(n, "Example") for n in range(12)])
    write(f"{dir}/mmlu.csv", [{"": n, "Question": m["question"], **dict(zip("ABCD", m["choices"])), "Answer": "ABCD"[m["answer"]], "Subject": m["subject"]}
                              for n, m in enumerate(mmlu(n, "Case") for n in range(len(CHOICES)))])
    write(f"{dir}/mmlu-pro.jsonl", [pro(n, "Case") for n in range(len(CHOICES))])
    write(f"{dir}/mmlu-pro-validation.jsonl", [pro(n, "Example") for n in range(12)])
    write(f"{dir}/gpqa.csv", [{"Record ID": f"rec{n}", "Question": f"Case {n}: which,\nof \"these\"?", "Correct Answer": f" right{n} [title]x  y.",
                               "Incorrect Answer 1": f"right{n}", "Incorrect Answer 2": f"other, {n}", "Incorrect Answer 3": f"a third\n{n}"} for n in range(len(CHOICES))])
    write(f"{dir}/aime.jsonl", [{"ID": f"2024-I-{n}", "Problem": f"Case {n}: find $n$.", "Solution": "", "Answer": int(r)} for n, (r, _) in enumerate(whole)])
    write(f"{dir}/math-500.jsonl", [{"problem": f"Case {n}: find $x$.", "solution": f"So it is $\\boxed{{{r}}}$.", "answer": r, "subject": "Algebra", "level": 1, "unique_id": f"test/{n}"}
                                    for n, (r, _) in enumerate(LATEX)])


def reply(prompt):
    """What is replied to a prompt, by the number of its last case."""
    n = int(re.findall(r"Case (\d+):", prompt)[-1])
    last = prompt[prompt.rindex(f"Case {n}:"):]
    if "find $n$" in last:
        return [b for a, b in LATEX if a.isdigit() and int(a) < 1000][n]
    if "find $x$" in last:
        return LATEX[n][1]
    if "how many" in last:
        return NUMBERS[n][1]
    right = re.findall(rf"\(?([A-J])[.)] +(right{n}\b[^\n]*)", last)
    right = max(right, key=lambda r: len(r[1])) # GPQA has a wrong choice that is the beginning of the right one
    return (CHOICES[n].replace("{L}", right[0]).replace("{l}", right[0].lower()).replace("{W}", "B" if right[0] == "A" else "A").replace("{T}", right[1].strip()))


asked = {} # body by prompt


def serve():
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send({"model_path": "m", "data": [{"id": "m"}]})

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            if self.path.endswith("tokenize"):
                return self.send_error(404)
            prompt = body.get("messages") or body.get("prompt") or body.get("text")
            key = json.dumps(prompt)
            asked[key] = {"path": self.path, **body}
            text = reply(prompt if isinstance(prompt, str) else prompt[-1]["content"])
            self.send({"id": "x", "object": "chat.completion", "created": 0, "model": "m", "choices": [{"index": 0, "text": text, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
                       "text": text, "meta_info": {"completion_tokens": 1, "prompt_tokens": 1}, "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}})

        def send(self, what):
            out = json.dumps(what).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(out)))
            self.end_headers()
            self.wfile.write(out)

        def log_message(self, *a):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    os.environ["OPENAI_API_KEY"] = "none"
    return f"http://127.0.0.1:{server.server_address[1]}"


def lm_eval(dir, tasks, include=None, gen_kwargs=None, endpoints=("completions", "chat")):
    os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1")
    import datasets
    kept = tempfile.mkdtemp()
    real = datasets.load_dataset
    files = {"openai/gsm8k": dict(test="gsm8k.jsonl", train="gsm8k-train.jsonl"), "cais/mmlu": dict(test="mmlu.jsonl", dev="mmlu-dev.jsonl"),
             "TIGER-Lab/MMLU-Pro": dict(test="mmlu-pro.jsonl", validation="mmlu-pro-validation.jsonl"), "Idavidrein/gpqa": dict(train="gpqa.csv"),
             "Maxwell-Jia/AIME_2024": dict(train="aime.jsonl"), "HuggingFaceH4/MATH-500": dict(test="math-500.jsonl")}

    def load(path=None, name=None, **_):
        local = {split: f"{dir}/{f}" for split, f in files[path].items()}
        found = real("csv" if path.endswith("gpqa") else "json", data_files=local, cache_dir=kept)
        return found.filter(lambda r: r["subject"] == name) if path == "cais/mmlu" else found

    datasets.load_dataset = load
    from lm_eval import simple_evaluate
    from lm_eval.tasks import TaskManager
    url = serve()
    lines = []
    for endpoint in endpoints:
        for task, name in tasks:
            asked.clear()
            args = dict(model="m", base_url=url + {"completions": "/v1/completions", "chat": "/v1/chat/completions"}[endpoint],
                        num_concurrent=1, tokenizer_backend=None, tokenized_requests=False)
            if include: # as InferenceX does
                args |= dict(eos_string="</s>", max_length=16384)
            found = simple_evaluate(model={"completions": "local-completions", "chat": "local-chat-completions"}[endpoint], model_args=args, tasks=[name],
                                    apply_chat_template=endpoint == "chat", log_samples=True, bootstrap_iters=0, gen_kwargs=gen_kwargs,
                                    task_manager=TaskManager(include_path=include) if include else None)
            marks = {}
            for sample in next(iter(found["samples"].values())):
                prompt = sample["arguments"][0][0]
                prompt = json.loads(prompt[0]) if endpoint == "chat" else prompt
                n = int(re.search(r"Case (\d+)", json.dumps(sample["doc"])).group(1))
                key = (n, sample["doc"].get("repeat_id", 0))
                line = marks.setdefault(key, dict(task=task, endpoint=endpoint, question=n, sample=key[1], ask=asked[json.dumps(prompt)], reply=sample["resps"][0][0], marks={}))
                line["marks"][sample["filter"]] = [str(sample["filtered_resps"][0]), bool(sample["exact_match"])]
            lines += [marks[k] for k in sorted(marks)]
    return lines


def inferencex(dir, checkout):
    sys.path.insert(0, f"{checkout}/utils/evals/patches")
    import lm_eval_sitecustomize # noqa: F401
    evals = f"{checkout}/utils/evals"
    # what benchmark_lib.sh says of a context of 16384 tokens
    from lm_eval.utils import load_yaml_config
    return lm_eval(dir, [("gsm8k", load_yaml_config(f"{evals}/gsm8k.yaml")), ("gpqa-diamond", load_yaml_config(f"{evals}/gpqa_diamond.yaml"))], include=evals,
                   gen_kwargs="max_tokens=12288,temperature=0,top_p=1", endpoints=["chat"])


def simple_evals(dir, checkout):
    import importlib, pandas
    parent = tempfile.mkdtemp()
    os.symlink(os.path.abspath(checkout), f"{parent}/simple_evals")
    sys.path.insert(0, parent)
    os.environ["OPENAI_BASE_URL"] = serve() + "/v1"
    os.environ["OPENAI_API_KEY"] = "none"
    real = pandas.read_csv
    pandas.read_csv = lambda path: real(f"{dir}/{'mmlu' if 'mmlu' in path else 'gpqa'}.csv")
    sampler = importlib.import_module("simple_evals.sampler.chat_completion_sampler")
    lines = []
    for task, module, name, args in (("mmlu", "mmlu_eval", "MMLUEval", {}), ("gpqa-diamond", "gpqa_eval", "GPQAEval", {"n_repeats": 2})):
        asked.clear()
        found = getattr(importlib.import_module(f"simple_evals.{module}"), name)(**args)(
            sampler.ChatCompletionSampler(model="m", system_message=sampler.OPENAI_SYSTEM_MESSAGE_API, max_tokens=2048))
        seen = {}
        for html, convo in zip(found.htmls, found.convos):
            prompt, text = convo[:-1], convo[-1]["content"]
            n = int(re.search(r"Case (\d+)", prompt[-1]["content"]).group(1))
            sample = seen[n] = seen.get(n, -1) + 1
            marks = re.search(r"Extracted Answer: (.*)</p>\s*<p>Score: (.*)</p>", html)
            body = asked[json.dumps(prompt)]
            lines.append(dict(task=task, endpoint="chat", question=n, sample=sample, ask=body, reply=reply(prompt[-1]["content"]),
                              marks={"answer": ["" if marks.group(1) == "None" else marks.group(1), float(marks.group(2)) == 1]}))
    return lines


def evalscope(dir):
    import datasets
    real, kept = datasets.load_dataset, tempfile.mkdtemp()
    files = {"mmlu": dict(test="mmlu.jsonl", dev="mmlu-dev.jsonl"), "mmlu_pro": dict(test="mmlu-pro.jsonl", validation="mmlu-pro-validation.jsonl"), "gpqa_diamond": dict(train="gpqa.csv")}
    subjects = {"mmlu": ["anatomy", "us_foreign_policy"], "mmlu_pro": ["biology", "computer science"], "gpqa_diamond": ["default"]}

    def load(path, split, **_):
        f = files[os.path.basename(path)][split]
        return real("csv" if f.endswith("csv") else "json", data_files=f"{dir}/{f}", split="train", cache_dir=f"{kept}/cache")

    datasets.load_dataset = load
    from evalscope import TaskConfig, run_task
    for task in files:
        os.mkdir(f"{kept}/{task}")
    run_task(TaskConfig(model="m", api_url=serve() + "/v1", api_key="none", eval_type="openai_api", datasets=list(files), work_dir=f"{kept}/out", no_timestamp=True, eval_batch_size=1,
                        dataset_args={t: dict(local_path=f"{kept}/{t}", subset_list=subjects[t]) for t in files}))
    lines = []
    for task in files:
        for subject in subjects[task]:
            for line in open(f"{kept}/out/reviews/m/{task}_{subject}.jsonl", encoding="utf-8"):
                row = json.loads(line)
                prompt, text, score = row["messages"][0]["content"], row["messages"][1]["content"], row["sample_score"]["score"]
                body = asked[json.dumps([{"role": "user", "content": prompt}])]
                lines.append(dict(task=task.replace("_", "-"), endpoint="chat", question=int(re.findall(r"Case (\d+):", prompt)[-1]), sample=0, ask=body, reply=reply(prompt),
                                  marks={"answer": [score["extracted_prediction"], next(iter(score["value"].values())) == 1]}))
    return lines


def sglang(dir):
    import argparse
    import sglang.test.few_shot_gsm8k as module
    port = int(serve().rsplit(":", 1)[1])
    os.chdir(tempfile.mkdtemp())
    module.run_eval(argparse.Namespace(num_shots=5, data_path=f"{dir}/gsm8k.jsonl", num_questions=len(NUMBERS), max_new_tokens=512, parallel=1,
                                       host="127.0.0.1", port=port, temperature=0.0))
    lines = []
    for n, (_, text) in enumerate(NUMBERS): # it keeps no marks: they are by its own function
        answer = [json.loads(line) for line in open(f"{dir}/gsm8k.jsonl", encoding="utf-8")][n]["answer"]
        body = next(b for k, b in asked.items() if int(re.findall(r"Case (\d+):", k)[-1]) == n)
        found, right = module.get_answer_value(text), module.get_answer_value(answer)
        lines.append(dict(task="gsm8k", endpoint="generate", question=n, sample=0, ask=body, reply=text,
                          marks={"last number": ["" if found == module.INVALID else str(found), bool(found == right)]}))
    return lines


def vllm(dir, checkout):
    import types
    for name in ("vllm", "vllm.assets", "vllm.assets.base"): # of which the script takes an address alone
        sys.modules[name] = types.ModuleType(name)
    sys.modules["vllm.assets.base"].VLLM_S3_BUCKET_URL = "none"
    sys.path.insert(0, f"{checkout}/tests/evals/gsm8k")
    import gsm8k_eval as module
    read = lambda name: [json.loads(line) for line in open(f"{dir}/{name}.jsonl", encoding="utf-8")]
    module.load_gsm8k_data = lambda: (read("gsm8k-train"), read("gsm8k"))
    port = int(serve().rsplit(":", 1)[1])
    lines = []
    for endpoint, chat in (("completions", False), ("chat", True)):
        asked.clear()
        score = module.evaluate_gsm8k(port=port, use_chat_completions=chat, temperature=None if chat else 0.0, max_concurrency=1, num_questions=len(NUMBERS))
        bodies = {int(re.findall(r"Case (\d+):", k)[-1]): b for k, b in asked.items()}
        right = 0
        for n, row in enumerate(read("gsm8k")): # it keeps no marks: they are by its own function, and add up to its score
            text = NUMBERS[n][1]
            found, is_right = module.get_answer_value(text), module.get_answer_value(text) == module.get_answer_value(row["answer"])
            right += is_right
            lines.append(dict(task="gsm8k", endpoint=endpoint, question=n, sample=0, ask=bodies[n], reply=text,
                              marks={"last number": ["" if found == module.INVALID else str(found), is_right]}))
        assert abs(right / len(NUMBERS) - score["accuracy"]) < 1e-9, (right, score)
    return lines


def main():
    what, dir, rest = sys.argv[1], os.path.abspath(sys.argv[2]), sys.argv[3:]
    if what == "questions":
        return questions(dir)
    if what == "lm-eval":
        lines = lm_eval(dir, [("gsm8k", "gsm8k"), ("mmlu", "mmlu_anatomy_generative"), ("mmlu", "mmlu_us_foreign_policy_generative"), ("mmlu-pro", "mmlu_pro_biology"),
                              ("mmlu-pro", "mmlu_pro_computer_science"), ("gpqa-diamond", "gpqa_diamond_cot_zeroshot"), ("aime", "aime24"), ("math-500", "hendrycks_math500")])
    else:
        lines = {"inferencex": inferencex, "simple-evals": simple_evals, "evalscope": evalscope, "sglang": sglang, "vllm": vllm}[what](dir, *rest[1:])
    kept = {}
    for line in lines: # of a task a few asks say all
        at = (line["task"], line["endpoint"], line["sample"])
        kept[at] = kept.get(at, 0) + 1
        if kept[at] > (80 if line["task"] == "gpqa-diamond" else 3): # whose choices are shuffled
            del line["ask"]
    write(f"{dir}/{rest[0]}.jsonl", lines)


main()
